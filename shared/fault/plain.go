package fault

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Describe says in plain words why something failed: the message of a standard library error without operations
// and addresses. A file's path is left out, since the caller names it. Other errors keep their text.
func Describe(err error) string {
	switch e := err.(type) {
	case *url.Error:
		return Describe(e.Err)
	case *net.OpError:
		return Describe(e.Err)
	case *fs.PathError:
		return Describe(e.Err)
	case *os.LinkError:
		return Describe(e.Err)
	case *os.SyscallError:
		return Describe(e.Err)
	case *net.DNSError:
		if e.IsNotFound {
			return fmt.Sprintf("host %q not found", e.Name)
		}
		return fmt.Sprintf("the name %q cannot be looked up", e.Name)
	case *net.AddrError:
		return fmt.Sprintf("%q is not an address", e.Addr)
	case *strconv.NumError:
		return fmt.Sprintf("%q is not such a number", e.Num)
	case *json.SyntaxError:
		return syntax(e)
	case *json.UnmarshalTypeError:
		return fmt.Sprintf("%s has the wrong type, %s", cmp.Or(e.Field, "it"), e.Value)
	case *Fault:
		return e.Message
	}
	for target, text := range sentinelTexts { // no map lookup: an error's type may not be hashable
		if err == target {
			return text
		}
	}
	if late, ok := err.(net.Error); ok && late.Timeout() {
		return "no answer came in time"
	}
	return err.Error()
}

// sentinelTexts are the texts of errors that are compared by identity.
var sentinelTexts = map[error]string{
	syscall.ECONNREFUSED: "nothing listens there", syscall.EHOSTUNREACH: "no route to it",
	syscall.ENETUNREACH: "no route to it",
	syscall.ECONNRESET:  "the connection was lost", syscall.EPIPE: "the connection was lost",
	net.ErrClosed:    "the connection was lost",
	context.Canceled: "it was cancelled", io.EOF: "it ended too early", io.ErrUnexpectedEOF: "it ended too early",
}

// syntax returns what is not JSON, and where.
func syntax(e *json.SyntaxError) string {
	said, is := strings.CutPrefix(e.Error(), "invalid character ")
	end := strings.Index(said[min(1, len(said)):], "' ")
	if !is || end < 0 {
		return "it ends too early"
	}
	return fmt.Sprintf("unexpected %s at byte %d", said[:end+2], max(e.Offset-1, 0))
}
