// Driver runs one command of the client and prints JSON lines: scripts/e2e/clients_test.go.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"time"

	ao "ao/shared/clients/go"
)

type members map[string]any

func say(m members) {
	if err := json.NewEncoder(os.Stdout).Encode(m); err != nil {
		log.Fatal(err)
	}
}

func main() {
	retryFor, err := time.ParseDuration(cmp.Or(os.Getenv("RETRY_FOR"), "60") + "s")
	if err != nil {
		log.Fatal(err)
	}
	err = run(ao.New(ao.Config{RetryFor: retryFor}), os.Args[1], append(os.Args[2:], "", ""))
	var refused *ao.APIError
	var failed *ao.RunError
	var lost *ao.UnreachableError
	var signature *ao.SignatureError
	switch {
	case errors.As(err, &refused):
		say(members{"error": "api", "status": refused.Status, "code": refused.Code, "field": refused.Field,
			"message": refused.Message})
	case errors.As(err, &failed):
		say(members{"error": "run", "code": failed.Code, "message": failed.Message})
	case errors.As(err, &lost):
		say(members{"error": "unreachable"})
	case errors.As(err, &signature):
		say(members{"error": "signature"})
	case err != nil:
		log.Fatal(err)
	}
}

func run(client *ao.Client, command string, args []string) error {
	ctx := context.Background()
	switch command {
	case "start":
		r, err := client.Start(ctx, ao.Request{AgentName: args[0], Parameters: json.RawMessage(args[1]), Key: args[2]})
		if err == nil {
			say(members{"run": r.ID})
		}
		return err
	case "run":
		r, err := client.Run(ctx, ao.Request{AgentName: args[0], Parameters: json.RawMessage(args[1])})
		if err == nil {
			say(members{"data": r.Result.Data})
		}
		return err
	case "bad":
		_, err := client.Start(ctx, ao.Request{AgentName: "echo", TimeoutSeconds: -1})
		return err
	case "wait":
		r, err := client.Wait(ctx, args[0])
		if err == nil {
			say(members{"status": r.Status, "data": r.Result.Data})
		}
		return err
	case "events":
		for e, err := range client.Events(ctx, args[0], args[1]) {
			if err != nil {
				return err
			}
			var body struct{ Content []struct{ Text string } }
			if err := json.Unmarshal(e.Document, &body); err != nil {
				return err
			}
			text := ""
			if len(body.Content) > 0 {
				text = body.Content[0].Text
			}
			say(members{"type": e.Type, "text": text, "position": e.Position})
		}
		say(members{"type": "end"})
		return nil
	default:
		return verify(args)
	}
}

func verify(secrets []string) error {
	var sent struct {
		Body    string
		Headers map[string]string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&sent); err != nil {
		return err
	}
	header := http.Header{}
	for name, value := range sent.Headers {
		header.Set(name, value)
	}
	hook, err := ao.VerifyWebhook([]byte(sent.Body), header, secrets[:len(secrets)-2]...)
	if err == nil {
		say(members{"id": hook.ID, "type": hook.Type, "run": hook.Run.ID})
	}
	return err
}
