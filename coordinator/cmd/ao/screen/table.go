package screen

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Table is a table for people: rows under a header.
type Table struct {
	header []string
	rows   [][]string
}

// NewTable returns an empty table with these columns.
func NewTable(columns ...string) *Table { return &Table{header: columns} }

// Row adds a row; its cells are escaped.
func (t *Table) Row(cells ...string) {
	for i, c := range cells {
		cells[i] = Line(c)
		if cells[i] == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

// String returns the table, aligned. Columns without any value are omitted.
func (t *Table) String() string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.header}, t.rows...) {
		var shown []string
		for i, c := range row {
			if t.used(i) {
				shown = append(shown, c)
			}
		}
		fmt.Fprintln(tw, strings.Join(shown, "\t"))
	}
	_ = tw.Flush() // cannot fail in memory
	return b.String()
}

func (t *Table) used(column int) bool {
	return len(t.rows) == 0 || slices.ContainsFunc(t.rows, func(row []string) bool { return row[column] != "-" })
}

// Facts are names with values, one per line, aligned.
type Facts struct {
	rows [][2]string
}

// Add adds pairs of a name and a value, except for empty values. Values are escaped, and their further lines indented.
func (f *Facts) Add(pairs ...string) {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			f.rows = append(f.rows, [2]string{pair[0], Text(pair[1])})
		}
	}
}

// String returns the facts.
func (f *Facts) String() string {
	var b strings.Builder
	width := 0
	for _, r := range f.rows {
		width = max(width, len(r[0]))
	}
	for _, r := range f.rows {
		value := strings.ReplaceAll(strings.TrimRight(r[1], "\n"), "\n", "\n"+strings.Repeat(" ", width+2))
		fmt.Fprintf(&b, "%-*s  %s\n", width, r[0], value)
	}
	return b.String()
}

// Age formats how long ago t was; more than a month ago, the date.
func Age(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return ""
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	case d < 31*24*time.Hour:
		return fmt.Sprintf("%dd ago", d/(24*time.Hour))
	}
	return t.Local().Format(time.DateOnly)
}

// Duration formats a duration with two or three digits.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0ms"
	case d < time.Second:
		return fmt.Sprintf("%dms", d/time.Millisecond)
	case d < time.Minute:
		return fmt.Sprintf("%d.%ds", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
}

// At formats a time with its age.
func At(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05") + " (" + Age(now, t) + ")"
}
