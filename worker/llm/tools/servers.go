// Package tools is the tools of an agent's MCP servers, over streamable HTTP, over HTTP with server-sent events, and of
// programs over their stdin and stdout.
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

// codeBad is the code of servers that a blueprint defines wrongly.
const codeBad = "mcp_servers_invalid"

// The types of servers.
const (
	kindHTTP  = "http" // streamable HTTP
	kindSSE   = "sse"  // HTTP with server-sent events, as before it
	kindStdio = "stdio"
)

// Server is an MCP server as a blueprint names it.
type Server struct {
	Name    string            `json:"-"`
	Type    string            `json:"type"` // default: stdio where there is a command, http where there is a url
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Command string            `json:"command"` // on PATH, or absolute
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"` // added to the run's
}

// Read reads a blueprint's mcp_servers, in their order: an object of servers by name. The error names server and field.
func Read(raw json.RawMessage) ([]Server, error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	members, err := strictjson.Members(raw)
	if err != nil {
		return nil, fault.New(fault.Invalid, codeBad, "The agent's mcp_servers must be an object of servers by name")
	}
	var servers []Server
	for _, m := range members {
		s := Server{Name: m.Key}
		if err := strictjson.Decode(m.Value, &s); err != nil {
			return nil, s.bad("%s", fault.Of(err).Message)
		}
		if err := s.check(); err != nil {
			return nil, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

func (s Server) bad(format string, args ...any) error {
	return fault.New(fault.Invalid, codeBad, fmt.Sprintf("The agent's MCP server %.60q: ", s.Name)+fmt.Sprintf(format, args...)).With("server", s.Name)
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
		{s.Type != kindHTTP && s.Type != kindSSE && s.Type != kindStdio, fmt.Sprintf("type %.40q: it must be http, sse or stdio", s.Type)},
		{s.Type == kindStdio && s.Command == "", "command is required for type stdio"},
		{s.Type == kindStdio && (s.URL != "" || len(s.Headers) > 0), "url and headers do not belong to type stdio"},
		{s.Type != kindStdio && s.URL == "", "url is required for type " + s.Type},
		{s.Type != kindStdio && (s.Command != "" || len(s.Args) > 0 || len(s.Env) > 0), "command, args and env belong to type stdio only"},
		{strings.ContainsRune(s.Command+strings.Join(s.Args, ""), 0), "command and args must not hold a NUL"},
	} {
		if c.bad {
			return s.bad("%s", c.say)
		}
	}
	if err := s.checkVariables(); err != nil || s.Type == kindStdio {
		return err
	}
	return s.checkURL()
}

// checkVariables says which header or variable cannot be given to the server.
func (s *Server) checkVariables() error {
	for name, value := range s.Headers {
		if strings.ContainsAny(name+value, "\r\n\x00") || name == "" {
			return s.bad("headers: %.60q cannot be sent", name)
		}
	}
	for name, value := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return s.bad("env: %.60q cannot be set", name)
		}
	}
	return nil
}

func (s *Server) checkURL() error {
	if i := strings.Index(s.URL, "${"); i >= 0 {
		name, _, _ := strings.Cut(s.URL[i+2:], "}")
		return s.bad("url needs ${%.60s}, which is not known here", name)
	}
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return s.bad("url must be an http or https address")
	}
	return nil
}

// hide takes out of an error's text what it must not show: the address, which may hold a token, and what headers and
// environment were given.
func (s Server) hide(text string) string {
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
