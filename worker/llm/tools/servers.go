// Package tools provides the tools of an agent's MCP servers: over streamable HTTP, over HTTP with server-sent
// events, and of programs over stdin and stdout.
package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"ao/shared/fault"
	"ao/shared/strictjson"
)

const codeBad = "mcp_servers_invalid"

// Types of servers.
const (
	kindHTTP  = "http" // streamable HTTP
	kindSSE   = "sse"  // HTTP with server-sent events, the older transport
	kindStdio = "stdio"
)

// Server is an MCP server of a blueprint.
type Server struct {
	Name    string            `json:"-"`
	Type    string            `json:"type"` // default: stdio with a command, http with a url
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Command string            `json:"command"` // on PATH, or absolute
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"` // added to the run's environment
}

// Read decodes a blueprint's mcp_servers, an object of servers by name, in order. The error names server and field.
func Read(raw json.RawMessage) ([]Server, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	members, err := strictjson.Members(raw)
	if err != nil {
		return nil, fault.New(fault.Invalid, codeBad, "the agent's mcp_servers must be an object of servers by name")
	}
	var servers []Server
	for _, m := range members {
		s := Server{Name: m.Key}
		if err := strictjson.Decode(m.Value, &s); err != nil {
			return nil, s.invalid("%s", fault.Of(err).Message)
		}
		if err := s.check(); err != nil {
			return nil, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

func (s Server) invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, codeBad, fmt.Sprintf("the agent's MCP server %.60q: ", s.Name)+fmt.Sprintf(format,
		args...)).With("server", s.Name)
}

func (s *Server) check() error {
	switch s.Type {
	case "":
		s.Type = kindHTTP
		if s.Command != "" {
			s.Type = kindStdio
		}
	case "streamable-http", "streamable_http":
		s.Type = kindHTTP
	}
	for _, c := range []struct {
		bad bool
		say string
	}{
		{s.Name == "", "a name is required"},
		{s.Type != kindHTTP && s.Type != kindSSE && s.Type != kindStdio,
			fmt.Sprintf("type must be http, sse or stdio, not %.40q", s.Type)},
		{s.Type == kindStdio && s.Command == "", "command is required for type stdio"},
		{s.Type == kindStdio && (s.URL != "" || len(s.Headers) > 0), "url and headers do not belong to type stdio"},
		{s.Type != kindStdio && s.URL == "", "url is required for type " + s.Type},
		{s.Type != kindStdio && (s.Command != "" || len(s.Args) > 0 || len(s.Env) > 0),
			"command, args and env belong to type stdio only"},
		{strings.ContainsRune(s.Command+strings.Join(s.Args, ""), 0), "command and args must not contain a NUL"},
	} {
		if c.bad {
			return s.invalid("%s", c.say)
		}
	}
	if err := s.checkVariables(); err != nil || s.Type == kindStdio {
		return err
	}
	return s.checkURL()
}

func (s *Server) checkVariables() error {
	for name, value := range s.Headers {
		if strings.ContainsAny(name+value, "\r\n\x00") || name == "" {
			return s.invalid("headers: %.60q cannot be sent", name)
		}
	}
	for name, value := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return s.invalid("env: %.60q cannot be set", name)
		}
	}
	return nil
}

func (s *Server) checkURL() error {
	if i := strings.Index(s.URL, "${"); i >= 0 {
		name, _, _ := strings.Cut(s.URL[i+2:], "}")
		return s.invalid("url has the unknown variable ${%.60s}", name)
	}
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return s.invalid("url must be an http or https address")
	}
	return nil
}

// redact removes secrets from an error's text: the address, which may contain a token, and the values of headers and
// environment.
func (s Server) redact(text string) string {
	if s.URL != "" {
		text = strings.ReplaceAll(text, s.URL, "its address")
		if u, err := url.Parse(s.URL); err == nil && len(u.Path) > 8 {
			text = strings.ReplaceAll(text, u.Path, "/…")
		}
	}
	for _, values := range []map[string]string{s.Headers, s.Env} {
		for _, value := range values {
			if _, credential, ok := strings.Cut(value, " "); ok && len(credential) >= 6 {
				text = strings.ReplaceAll(text, credential, "[hidden]")
			}
			if len(value) >= 6 {
				text = strings.ReplaceAll(text, value, "[hidden]")
			}
		}
	}
	return text
}
