package command

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"

	"github.com/spf13/cobra"
)

// maxRejected is the most messages of a page.
const maxRejected = 100

// rejectedMessage is a message of GET /rejected.
type rejectedMessage struct {
	Time    time.Time `json:"time"`
	Subject string    `json:"subject"`
	Reason  string    `json:"reason"`
	Bytes   int       `json:"bytes"`
}

func rejectedCommand(a *app) *cobra.Command {
	var limit int
	var cursor string
	var all bool
	c := &cobra.Command{
		Use: "rejected", Short: "List messages of the inbox that were refused, newest first", Args: noArguments,
		Long: `List messages that publishers left in the inbox and that were refused, with the reasons. They are kept
for a week, up to 256 MiB. It needs a token with scope admin.`,
		Example: "  ao rejected\n  ao rejected --json --all | jq -r .body",
	}
	flags := c.Flags()
	flags.IntVar(&limit, "limit", 20, "maximum rows per page (1 to 100)")
	flags.StringVar(&cursor, "cursor", "", "continue after the page that printed this cursor")
	flags.BoolVar(&all, "all", false, "all pages")
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		if limit < 1 || limit > maxRejected {
			return usagef("limit must be from 1 to %d, got %d; --all lists everything", maxRejected, limit)
		}
		if all {
			limit = maxRejected // fewer requests
		}
		q := url.Values{"limit": {strconv.Itoa(limit)}}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		p, err := pages(q, func(client.Page) bool { return all }, func() (client.Page, error) {
			return a.once.List(ctx, "messages", q, "rejected")
		})
		if err != nil {
			return err
		}
		table := screen.NewTable("TIME", "SUBJECT", "BYTES", "REASON")
		return printList(a, p, "no messages were refused", table, func(m rejectedMessage) {
			table.Row(screen.At(a.now(), m.Time), m.Subject, strconv.Itoa(m.Bytes), a.lastCell(m.Reason))
		})
	})
	return c
}
