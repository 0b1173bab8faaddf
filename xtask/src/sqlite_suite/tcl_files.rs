//! Which TCL tests are run, which are left out, and why some of them do not pass.

/// Files of tests, by what they are about.
pub(super) const GROUPS: [(&str, &str); 14] = [
    (
        "SELECT, joins, WHERE",
        "select1 select2 select3 select4 select5 select6 select7 select8 select9 selectA selectB selectC selectD selectE \
         selectF selectG join join2 join3 join4 join5 join6 join7 join8 join9 joinA joinB joinC joinD joinE joinF joinH where where2 \
         where3 where4 where5 where6 where7 where8 where9 whereA whereB whereC whereD whereE whereF whereG whereH whereI whereJ \
         whereK whereL whereM orderby1 orderby2 orderby3 orderby4 orderby5 orderby6 orderby7 orderby8 orderby9 limit limit2 \
         distinct distinct2 exists in in2 in3 in4 in5 in6 subquery subquery2 subselect between e_select e_select2 like like2 \
         like3 minmax minmax2 minmax3 minmax4 unionall unionall2 rowvalue rowvalue2 rowvalue3 rowvalue4 tpch01",
    ),
    (
        "INSERT, UPDATE, DELETE",
        "insert insert2 insert3 insert4 insert5 update update2 delete delete2 delete3 delete4 e_insert e_update e_delete \
         upsert1 upsert2 upsert3 upsert4 upsert5 upfrom1 upfrom2 upfrom3 upfrom4 returning1 conflict conflict2 conflict3 \
         lastinsert laststmtchanges changes changes2 e_changes e_totalchanges rowid autoinc intpkey wherelimit wherelimit2",
    ),
    (
        "tables and indexes",
        "table createtab e_createtable index index2 index3 index4 index5 index6 index7 index8 index9 indexedby indexexpr1 \
         indexexpr2 descidx1 descidx2 descidx3 unique unique2 check default notnull notnull2 null nulls1 types types2 types3 \
         strict1 strict2 gencol1 without_rowid1 without_rowid2 without_rowid3 without_rowid4 without_rowid5 without_rowid6 \
         without_rowid7 reindex e_reindex collate1 collate2 collate3 collate4 collate5 collate6 collate7 collate8 collate9 \
         collateA collateB autoindex1 autoindex2 autoindex3 autoindex4 autoindex5 analyze analyze3 analyze4 analyze5 analyze6 \
         analyze7 analyze8 schema schema2 schema3 schema4 schema5 schema6 temptable temptable2 temptable3 tempdb tempdb2",
    ),
    (
        "transactions, savepoints, locks",
        "trans trans2 trans3 savepoint savepoint2 savepoint4 savepoint5 savepoint7 rollback rollback2 subjournal \
         lock lock2 lock3 lock4 lock5 lock6 lock7 busy busy2 exclusive exclusive2 cachespill cacheflush dataversion1 attach \
         attach2 attach3 attach4 avtrans interrupt interrupt2 tkt3457 writecrash jrnlmode jrnlmode2 jrnlmode3 journal1 journal2 \
         journal3 shared shared2 shared3 shared4 shared6 shared7 shared8 shared9 sharedA sharedB",
    ),
    (
        "triggers",
        "trigger1 trigger2 trigger3 trigger4 trigger5 trigger6 trigger7 trigger8 trigger9 triggerA triggerB triggerC triggerD triggerE triggerF triggerG triggerupfrom temptrigger e_droptrigger altertrig",
    ),
    ("views", "view view2 view3 e_dropview"),
    (
        "VACUUM",
        "vacuum vacuum2 vacuum3 vacuum4 vacuum5 vacuum6 vacuum-into e_vacuum autovacuum autovacuum2 incrvacuum incrvacuum2 \
         incrvacuum3 pagesize bigrow securedel securedel2",
    ),
    (
        "ALTER TABLE",
        "alter alter2 alter3 alter4 alterauth alterauth2 altercol alterdropcol alterdropcol2 alterlegacy alterqf altertab altertab2 altertab3",
    ),
    ("foreign keys", "fkey1 fkey2 fkey3 fkey4 fkey5 fkey6 fkey7 fkey8 e_fkey"),
    (
        "window functions",
        "window1 window2 window3 window4 window5 window6 window7 window8 window9 windowA windowB windowC windowD windowE windowerr windowpushd filter1 filter2",
    ),
    ("WITH", "with1 with2 with3 with4 with5 with6 withM"),
    (
        "expressions, functions, JSON",
        "expr expr2 e_expr func func2 func3 func4 func5 func6 func7 cast date date2 date3 blob cse coalesce instr substr \
         printf printf2 hexlit istrue json101 json102 json103 json104 json105 enc enc2 enc3 enc4 utf16align nan round1 tabfunc01",
    ),
    (
        "full text and R-trees",
        "fts3aa fts3ab fts3ac fts3ad fts3ae fts3af fts3ag fts3ah fts3ai fts3aj fts3ak fts3al fts3am fts3an fts3ao fts3b fts3c \
         fts3d fts3e fts4aa fts4content fts4incr fts4merge fts4noti fts4opt fts5aa fts5ab fts5ac fts5ad fts5ae fts5af fts5ag \
         fts5ah fts5ai fts5aj fts5ak fts5al fts5alter fts5delete fts5content fts5merge fts5savepoint fts5simple fts5update rtree1 rtree2 \
         rtree4 rtree5 rtree6 rtree7 rtree8",
    ),
    (
        "the rest of the engine",
        "pragma pragma2 pragma3 pragma4 misc1 misc2 misc3 misc4 misc5 misc6 misc7 misc8 capi2 capi3 capi3b capi3c bind bind2 \
         incrblob incrblob2 incrblob3 incrblob4 e_blobopen e_blobwrite backup backup2 backup4 backup5 hook hook2 progress stmt memdb \
         memdb1 sort sort2 boundary1 boundary2 boundary3 boundary4 btree01 btree02 zeroblob stat dbpage dbstatus vtab1 vtab2 \
         vtab3 vtab4 vtab5 vtab6 vtabA vtabB vtabC quote main tclsqlite trace trace2 uri uri2 e_uri openv2 rdonly nockpt",
    ),
];

/// What is not run.
pub(super) const LEFT_OUT: [(&str, &str); 6] = [
    (
        "pager*, wal*, mjournal",
        "they make and read journals and WAL files by path; here there are none",
    ),
    (
        "corrupt*, dbfuzz*, fts3corrupt*",
        "they write into the file by path, below SQLite; a pool has checksums and another format",
    ),
    (
        "crash*, ioerr*, diskfull, *fault*",
        "their VFSs stand on the unix VFS and count its calls; `tembo-lab crashtest` and the kill tests are for that",
    ),
    (
        "mmap*, syscall, sysfault, unixexcl, symlink*, win32*, nolock, shmlock, superlock",
        "about the unix or the Windows VFS itself",
    ),
    (
        "shell*, sqldiff1, zipfile*, rbu, session, recover",
        "about other programs and extensions than the engine",
    ),
    (
        "malloc*, rtree3, speed*, savepoint6, soak, fuzz*, thread*",
        "memory that runs out, hours, or times: not about the VFS",
    ),
];

const REASONS: &str = include_str!("tcl.tsv");

/// Why a test of a file does not pass: the first line that fits; `*` at the end of file or test stands for any text.
pub(super) fn reason(file: &str, test: &str) -> Option<&'static str> {
    REASONS.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut columns = line.split('\t');
        let fits = |pattern: &str, text: &str| match pattern.strip_suffix('*') {
            Some(start) => text.starts_with(start),
            None => pattern == text,
        };
        let (of_file, of_test) = (columns.next()?, columns.next()?);
        (fits(of_file, file) && fits(of_test, test)).then(|| columns.next()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_file_is_there_once_and_every_line_has_a_reason() {
        let files: Vec<&str> =
            GROUPS.iter().flat_map(|(_, files)| files.split_whitespace()).collect();
        let once: BTreeSet<&&str> = files.iter().collect();
        assert_eq!(once.len(), files.len());
        for line in REASONS.lines().filter(|line| !line.starts_with('#')) {
            assert_eq!(line.split('\t').filter(|column| !column.is_empty()).count(), 3, "{line}");
            let file = line.split(['\t', '*']).next().unwrap();
            assert!(files.iter().any(|name| name.starts_with(file)), "{line}");
        }
    }
}
