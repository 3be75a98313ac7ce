package conformance_test

import (
	"context"
	"fmt"

	"ao/shared/executor/conformance"
)

// A program that reads its document and prints an answer is an executor. Checks that only warn leave the report OK.
func ExampleRun() {
	report, err := conformance.Run(context.Background(), conformance.Config{
		Command: []string{"sh", "-c", "cat >/dev/null; echo hello"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range report.Checks {
		if c.Result == conformance.Fail {
			fmt.Println(c.Name, c.Detail)
		}
	}
	fmt.Println("OK:", report.OK)
	// Output: OK: true
}
