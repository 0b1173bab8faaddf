# A database of the VFS `tembo` is removed with what lies beside it. The rest of the interpreter is as it is.
rename file file_of_tcl
proc file {args} {
  if {[lindex $args 0] eq "delete"} {
    foreach path [lrange $args 1 end] {
      if {![string match -* $path]} {
        file_of_tcl delete -force $path.log $path.sock
      }
    }
  }
  uplevel 1 [list file_of_tcl {*}$args]
}

# As the interpreter does with its first word.
set argv0 [lindex $argv 0]
set argv [lrange $argv 1 end]
source $argv0
