package command

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"

	"github.com/spf13/cobra"
)

// runner is the part of a runner that is shown.
type runner struct {
	ID            string            `json:"runner_id"`
	Status        string            `json:"status"`
	Why           string            `json:"why"`
	Hostname      string            `json:"hostname"`
	Profile       string            `json:"executor_profile"`
	Type          string            `json:"executor_type"`
	Dir           string            `json:"project_dir"`
	Tags          []string          `json:"tags"`
	Slots         int               `json:"max_concurrent_runs"`
	Busy          *int              `json:"running"`
	Agents        []json.RawMessage `json:"agents"`
	LastHeartbeat *time.Time        `json:"last_heartbeat"`
}

var runnerID = regexp.MustCompile(`^rnr_[0-9A-Za-z]{1,64}$`)

func runnersCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "runners", Short: "List runners; drain one", Args: noArguments}
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		p, err := a.once.List(ctx, "runners", nil, "runners")
		if err != nil {
			return err
		}
		table := screen.NewTable("RUNNER", "STATUS", "TYPE", "PROFILE", "HOST", "SLOTS", "AGENTS", "TAGS", "HEARTBEAT",
			"FOLDER", "WHY")
		return printList(a, p, "no runners; scripts/up starts one with the coordinator", table, func(r runner) {
			slots := strconv.Itoa(r.Slots)
			if r.Busy != nil {
				slots = strconv.Itoa(*r.Busy) + "/" + slots
			}
			table.Row(r.ID, r.Status, r.Type, r.Profile, screen.Truncate(r.Hostname, 30), slots, strconv.Itoa(len(
				r.Agents)), screen.Truncate(strings.Join(r.Tags, ","), 30), a.age(r.LastHeartbeat), pathTail(r.Dir, 40),
				r.Why)
		})
	})
	drain := &cobra.Command{
		Use: "delete RUNNER", Aliases: []string{"drain"},
		Short: "Drain a runner: it takes no new runs, finishes its own and exits",
		Args:  exactlyOne("a runner"), ValidArgsFunction: completer{a}.runners,
	}
	drain.RunE = a.withClient(func(ctx context.Context, args []string) error {
		if !runnerID.MatchString(args[0]) {
			return usagef("%.80q is not the id of a runner (rnr_…); 'ao runners' lists them", args[0])
		}
		answer, err := a.once.Do(ctx, client.Call{Method: http.MethodDelete, Path: []string{"runners", args[0]}})
		return a.done(answer.Document, err, "%s takes no new runs, finishes its own and exits", args[0])
	})
	c.AddCommand(drain)
	return c
}

// pathTail keeps the end of a path, which distinguishes folders.
func pathTail(path string, width int) string {
	if r := []rune(path); len(r) > width {
		return "…" + string(r[len(r)-width+1:])
	}
	return path
}
