package coordinator

import (
	"ao/shared/fault"
)

// codeOf is why a run failed.
func codeOf(f *fault.Fault) string {
	if f == nil {
		return "failed"
	}
	return f.Code
}
