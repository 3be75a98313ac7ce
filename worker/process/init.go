package process

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"ao/shared/executor"
	"ao/shared/version"
)

// Init is the first call of a built-in executor's program. It answers --help and --version, refuses other arguments
// (settings come on stdin) and calls Guard. It returns if there is work to do.
func Init(name, help string) {
	if args := os.Args[1:]; len(args) > 0 {
		if slices.Contains([]string{"--help", "-h", "-help"}, args[0]) {
			fmt.Print(help)
			os.Exit(0)
		}
		if strings.TrimLeft(args[0], "-") == "version" {
			fmt.Print(version.Line(name))
			os.Exit(0)
		}
		fmt.Fprintf(os.Stderr, "unexpected argument %q; %s --help prints what it reads\n", args[0], name)
		os.Exit(executor.CodeInvalid)
	}
	if err := Guard(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(executor.CodeFailed)
	}
}
