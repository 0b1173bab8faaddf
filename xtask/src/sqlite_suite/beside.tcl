# A database of the VFS `tembo` is removed and copied with what lies beside it. The rest of the interpreter is as it is.
rename file file_of_tcl
proc file {args} {
  set paths [lsearch -all -inline -not [lrange $args 1 end] -*]
  set is_other [regexp {\.(log|sock)$} [lindex $paths 0]]
  switch -- [lindex $args 0] {
    delete {
      foreach path $paths {
        file_of_tcl delete -force $path.log $path.sock
      }
    }
    copy {
      lassign $paths from to
      if {[string match *.sock $from]} return
      if {!$is_other && [llength $paths] == 2} {
        file_of_tcl delete -force $to.log
        if {[file_of_tcl exists $from.log]} {
          file_of_tcl copy -force $from.log $to.log
        }
      }
    }
  }
  uplevel 1 [list file_of_tcl {*}$args]
}

# As the interpreter does with its first word.
set argv0 [lindex $argv 0]
set argv [lrange $argv 1 end]
source $argv0
