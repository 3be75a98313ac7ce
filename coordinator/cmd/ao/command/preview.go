package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"ao/coordinator/cmd/ao/screen"
	"ao/shared/agent"
	client "ao/shared/clients/go"
	"ao/shared/strictjson"

	"github.com/spf13/cobra"
)

// violation is a validation error with its place in the sent text.
type violation struct {
	Path    string `json:"path"`
	Message string `json:"message"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
}

// formatViolations formats violations, one per line.
func formatViolations(all []violation) string {
	var b strings.Builder
	for _, v := range all {
		if v.Line > 0 {
			fmt.Fprintf(&b, "%d:%d: ", v.Line, v.Column)
		}
		b.WriteString(screen.Line(v.Path+": "+v.Message) + "\n")
	}
	return b.String()
}

func schemaValidateCommand(a *app) *cobra.Command {
	var answer string
	var strict bool
	c := &cobra.Command{
		Use: "validate SCHEMA", Short: "Check an output schema and, with --answer, an answer; store nothing",
		Args: exactlyOne("a file with a schema, '{…}', or -"),
		Long: `Check a JSON Schema as the coordinator does and print errors with line and column. With --answer, print
the JSON that a worker would extract from that answer.
Exit codes: 0 schema and answer are valid, 1 not valid, 2 usage error, 5 coordinator unreachable.`,
		Example: "  ao schemas validate findings.json\n  ao schemas validate findings.json --answer answer.txt",
	}
	c.Flags().StringVar(&answer, "answer", "", "an answer of a model: a file, or - for standard input")
	c.Flags().BoolVar(&strict, "strict-json", false, "the whole answer must be JSON; do not search for JSON in it")
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		body, err := validationBody(a, args[0], answer, strict)
		if err != nil {
			return err
		}
		doc, err := a.client.Do(ctx,
			client.Call{Method: http.MethodPost, Path: []string{"schemas", "validate"}, Body: body})
		if err != nil {
			return err
		}
		return showValidation(a, doc.Document)
	})
	return c
}

// validationBody returns the body of POST /schemas/validate. The schema is sent as text, which need not be valid JSON.
func validationBody(a *app, schema, answer string, strict bool) ([]byte, error) {
	if schema == "-" && answer == "-" {
		return nil, usagef("only one of schema and answer can be standard input")
	}
	text, err := a.readSource(schema)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"schema_text": string(text)}
	switch {
	case answer != "":
		text, err := a.readSource(answer)
		if err != nil {
			return nil, err
		}
		body["answer"] = string(text)
		if strict {
			body["options"] = map[string]bool{"strict_json_only": true}
		}
	case strict:
		return nil, usagef("--strict-json needs --answer")
	}
	return strictjson.Encode(body)
}

// showValidation prints the result for a schema and an answer.
func showValidation(a *app, doc json.RawMessage) error {
	var v struct {
		Valid  bool        `json:"valid"`
		Errors []violation `json:"errors"`
		Answer *struct {
			Valid      bool   `json:"valid"`
			Chosen     *int   `json:"chosen"`
			Message    string `json:"message"`
			Candidates []struct {
				Text   string      `json:"text"`
				Errors []violation `json:"errors"`
			} `json:"candidates"`
		} `json:"answer"`
	}
	if err := json.Unmarshal(doc, &v); err != nil {
		return err
	}
	bad := !v.Valid || v.Answer != nil && !v.Answer.Valid
	var err error
	switch {
	case a.json:
		err = a.printDoc(doc)
	case !v.Valid:
		err = a.print(formatViolations(v.Errors))
	case v.Answer == nil:
		err = a.print("valid\n")
	case v.Answer.Chosen == nil:
		a.note("%s", v.Answer.Message)
	default:
		chosen := v.Answer.Candidates[*v.Answer.Chosen]
		err = a.printPretty(json.RawMessage(chosen.Text))
		if bad {
			a.note("%s", "the answer does not match:\n"+formatViolations(chosen.Errors))
		}
	}
	if err == nil && bad {
		err = exitCode(exitFailed)
	}
	return err
}

func agentPreviewCommand(a *app) *cobra.Command {
	var params, prompt string
	c := &cobra.Command{
		Use: "preview AGENT|DEFINITION", Short: "Show the prompts of a run and the runners that match; store nothing",
		Args: exactlyOne("an agent, a file with a definition, '{…}', or -"), ValidArgsFunction: completer{a}.agents,
		Long: `Show the system prompt and the prompt that a run of an agent would get, and which runners match. A
definition that is not stored yet is a file, inline '{…}', or - for standard input.
Exit codes: 0 the parameters are valid, 1 they are not, or the definition is refused.`,
		Example: "  ao agents preview reviewer --prompt 'Look at src'\n  ao agents preview ./reviewer/agent.json " +
			"--params params.json",
	}
	c.Flags().StringVar(&params, "params", "",
		"all parameters as a JSON object: a file, '{…}', or - for standard input")
	c.Flags().StringVar(&prompt, "prompt", "", "the parameter prompt")
	c.MarkFlagsMutuallyExclusive("params", "prompt")
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		body, err := previewBody(a, args[0], params, prompt)
		if err != nil {
			return err
		}
		answer, err := a.client.Do(ctx,
			client.Call{Method: http.MethodPost, Path: []string{"agents", "preview"}, Body: body})
		if err != nil {
			return err
		}
		return showPreview(a, answer.Document)
	})
	return c
}

// previewBody returns the body of POST /agents/preview. If no such file exists, the argument is an agent's name.
func previewBody(a *app, what, params, prompt string) ([]byte, error) {
	var members []strictjson.Member
	if _, err := os.Stat(what); errors.Is(err, os.ErrNotExist) && what != "-" && !inline(what) {
		if err := agent.CheckName("agent", what); err != nil {
			return nil, usageError{err}
		}
		members = append(members, member("agent_name", what))
	} else {
		raw, err := a.readObject("definition", what)
		if err != nil {
			return nil, err
		}
		members = append(members, strictjson.Member{Key: "definition", Value: raw})
	}
	switch {
	case params != "":
		raw, err := a.readObject("params", params)
		if err != nil {
			return nil, err
		}
		members = append(members, strictjson.Member{Key: "parameters", Value: raw})
	case prompt != "":
		members = append(members, member("parameters", map[string]string{"prompt": prompt}))
	}
	return strictjson.Object(members), nil
}

// showPreview prints the prompts of a run and the matching runners.
func showPreview(a *app, doc json.RawMessage) error {
	var p struct {
		Valid   bool        `json:"valid"`
		Wrong   []violation `json:"validation_errors"`
		Prompt  string      `json:"prompt"`
		System  string      `json:"system_prompt"`
		Runners []struct {
			ID         string `json:"runner_id"`
			Hostname   string `json:"hostname"`
			Profile    string `json:"executor_profile"`
			Matches    bool   `json:"matches"`
			Mismatches []struct {
				Message string `json:"message"`
			} `json:"mismatches"`
		} `json:"runners"`
	}
	if err := json.Unmarshal(doc, &p); err != nil {
		return err
	}
	if a.json {
		if err := a.printDoc(doc); err != nil || p.Valid {
			return err
		}
		return exitCode(exitFailed)
	}
	var f screen.Facts
	f.Add("system prompt", strings.TrimRight(p.System, "\n"), "prompt", strings.TrimRight(p.Prompt, "\n"))
	a.print(f.String())
	table := screen.NewTable("RUNNER", "PROFILE", "HOST", "MATCHES", "WHY NOT")
	for _, r := range p.Runners {
		takes, why := "yes", []string{}
		if !r.Matches {
			takes = "no"
		}
		for _, m := range r.Mismatches {
			why = append(why, m.Message)
		}
		table.Row(r.ID, r.Profile, r.Hostname, takes, strings.Join(why, "; "))
	}
	if len(p.Runners) == 0 {
		a.note("no runner is registered; a run would wait")
	} else {
		a.print(table.String())
	}
	if !p.Valid {
		a.note("%s", "the parameters would be refused:\n"+formatViolations(p.Wrong))
		return exitCode(exitFailed)
	}
	return nil
}
