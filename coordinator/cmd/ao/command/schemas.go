package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"ao/coordinator/cmd/ao/screen"
	"ao/shared/agent"
	client "ao/shared/clients/go"
	"ao/shared/run"
	"ao/shared/strictjson"

	"github.com/spf13/cobra"
)

// outputSchema is an output schema in the API.
type outputSchema struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	CreatedAt   time.Time       `json:"created_at"`
}

func schemasCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "schemas", Short: "List named output schemas; show, create and delete them", Args: noArguments,
		Long: `List the output schemas for 'ao run --output-schema-name' and for an agent's output_schema_name. A schema
never changes; a new version needs a new name.`,
		Example: `  ao schemas create findings --file findings.json
  ao run security-scanner --prompt 'Look at src' --output-schema-name findings`,
	}
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		p, err := a.once.List(ctx, "schemas", nil, "schemas")
		if err != nil {
			return err
		}
		table := screen.NewTable("SCHEMA", "CREATED", "DESCRIPTION")
		return printList(a, p, "no output schemas; see 'ao schemas create --help'", table, func(s outputSchema) {
			table.Row(s.Name, screen.Age(a.now(), s.CreatedAt), a.lastCell(s.Description))
		})
	})
	c.AddCommand(schemaShowCommand(a), schemaCreateCommand(a), schemaValidateCommand(a),
		deleteCommand(a, "schemas", &cobra.Command{Use: "delete NAME", Args: oneSchema,
			Short: "Delete an output schema that no agent uses", ValidArgsFunction: completer{a}.schemas}))
	return c
}

func schemaShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show an output schema", Args: oneSchema, ValidArgsFunction: completer{a}.schemas,
		RunE: a.withClient(func(ctx context.Context, args []string) error {
			doc, err := a.once.Read(ctx, nil, "schemas", args[0])
			return show(a, doc, err, func(a *app, s outputSchema) error {
				var f screen.Facts
				f.Add("schema", s.Name, "description", s.Description, "created", a.at(&s.CreatedAt))
				return a.print(f.String(), "\n", a.safeJSON([]byte(indented(s.Schema))), "\n")
			})
		}),
	}
}

func schemaCreateCommand(a *app) *cobra.Command {
	var file, description string
	c := &cobra.Command{
		Use: "create NAME --file SCHEMA", Short: "Create a named output schema",
		Args: exactlyOne("a name for the output schema"), ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Create a named JSON Schema (draft-07) for runs and agents. It never changes.",
		Example: `  ao schemas create findings --file findings.json --description 'What a review finds'` + "\n" +
			`  ao schemas create count --file '{"type":"object","required":["n"]}'`,
	}
	c.Flags().StringVar(&file, "file", "", "the schema: a file, inline '{…}', or - for standard input")
	c.Flags().StringVar(&description, "description", "", "what it is for")
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		if err := agent.CheckName("name", args[0]); err != nil {
			return usageError{err}
		}
		if file == "" {
			return usagef("give the schema with --file: a file, inline '{…}', or - for standard input")
		}
		schema, err := a.readObject("schema", file)
		if err != nil {
			return err
		}
		body, err := strictjson.Encode(map[string]any{"name": args[0], "description": description,
			"schema": json.RawMessage(schema)})
		if err != nil {
			return err
		}
		answer, err := a.once.Do(ctx, client.Call{Method: http.MethodPost, Path: []string{"schemas"}, Body: body})
		return a.done(answer.Document, err, "%s created", args[0])
	})
	return c
}

// outputOptions are the flags for the output of a run.
type outputOptions struct {
	schema, name string
	retries      retries
	strict       bool
}

// retries is a flag for the number of corrections; nil: not given.
type retries struct{ n *int }

func (r *retries) String() string { return "" }
func (r *retries) Type() string   { return "number" }
func (r *retries) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > run.MaxOutputRetries {
		return errors.New("write a whole number from 0 to 10")
	}
	r.n = &n
	return nil
}

func addOutputFlags(a *app, c *cobra.Command, w *outputOptions) {
	f := c.Flags()
	f.StringVar(&w.schema, "output-schema", "",
		"the answer must match this JSON Schema: a file, inline '{…}', or - for standard input")
	f.StringVar(&w.name, "output-schema-name", "", "the answer must match this named output schema ('ao schemas')")
	f.Var(&w.retries, "output-retries", "how often the agent may correct an answer that does not match, 0 to 10")
	f.BoolVar(&w.strict, "strict-json", false, "the whole answer must be JSON; do not search for JSON in it")
	c.MarkFlagsMutuallyExclusive("output-schema", "output-schema-name")
	completeFlag(c, "output-schema-name", completer{a}.schemas)
}

// apply sets the options in a request.
func (w outputOptions) apply(a *app, r *request) error {
	if w.schema != "" {
		raw, err := a.readObject("output-schema", w.schema)
		if err != nil {
			return err
		}
		r.OutputSchema = raw
	}
	r.OutputSchemaName = w.name
	if w.retries.n != nil || w.strict {
		r.OutputOptions = &run.OutputOptions{MaxRetries: w.retries.n}
		if w.strict {
			r.OutputOptions.StrictJSONOnly = &w.strict
		}
	}
	return nil
}

// outputRule describes what an agent's answer must match.
func outputRule(b agent.Blueprint) string {
	switch o := b.OutputSchemaOptions; {
	case b.OutputSchema == nil && b.OutputSchemaName == "":
		return ""
	case b.OutputSchemaName != "":
		return fmt.Sprintf("must match schema %s ('ao schemas show %s')", b.OutputSchemaName, b.OutputSchemaName)
	case o != nil && o.MaxRetries != nil:
		return fmt.Sprintf("must match %s; up to %d corrections", b.OutputSchema, *o.MaxRetries)
	}
	return fmt.Sprintf("must match %s", b.OutputSchema)
}

// request is the body of POST /runs. Parameters keep their bytes.
type request struct {
	Type       string          `json:"type"`
	Agent      string          `json:"agent_name,omitempty"`
	Session    string          `json:"session_id,omitempty"`
	Parameters json.RawMessage `json:"parameters"`
	Mode       string          `json:"mode"`
	Parent     string          `json:"parent_session_id,omitempty"`
	ProjectDir string          `json:"project_dir,omitempty"`
	Demands    *run.Demands    `json:"additional_demands,omitempty"`
	Timeout    int             `json:"timeout_seconds,omitempty"`
	Attempts   int             `json:"max_attempts,omitempty"`
	Callback   string          `json:"callback_url,omitempty"`

	OutputSchema     json.RawMessage    `json:"output_schema,omitempty"`
	OutputSchemaName string             `json:"output_schema_name,omitempty"`
	OutputOptions    *run.OutputOptions `json:"output_schema_options,omitempty"`
}
