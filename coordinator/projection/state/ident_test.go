package state

import "testing"

// TestIdentsKeepTheirText, whether a coordinator or a caller made it.
func TestIdentsKeepTheirText(t *testing.T) {
	const digits = "0123456789abcdef0123456789abcde"
	for id, compact := range map[string]bool{
		"ses_" + digits + "f": true, "ses_" + digits + "F": false, "ses_" + digits + "g": false,
		"ses_" + digits + "_": false, "ses_" + digits: false, "ses_" + digits + "ff": false,
		"ses_": false, digits + "f": false,
	} {
		if i := IdentOf(SessionPrefix, id); i.Text(SessionPrefix) != id || (i.Odd == "") != compact {
			t.Errorf("%q became %q, compact %v", id, i.Text(SessionPrefix), i.Odd == "")
		}
	}
}
