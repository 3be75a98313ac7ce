package process

import (
	"fmt"
	"os"
	"slices"

	"ao/shared/executor"
	"ao/shared/version"
)

// Begin is the first thing that the program of a built-in executor does: it answers --help and --version, refuses arguments, since its settings
// come with the document on stdin, and has its programs guarded. It returns where there is work to be done.
func Begin(name, help string) {
	if args := os.Args[1:]; len(args) > 0 {
		if slices.Contains([]string{"--help", "-h", "-help"}, args[0]) {
			fmt.Print(help)
			os.Exit(0)
		}
		if args[0] == "--version" {
			fmt.Print(version.Line(name))
			os.Exit(0)
		}
		fmt.Fprintf(os.Stderr, "unexpected argument %q; %s --help tells what it reads\n", args[0], name)
		os.Exit(executor.CodeInvalid)
	}
	if err := Guard(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(executor.CodeFailed)
	}
}
