package rules

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestHouse(t *testing.T) {
	h, err := Read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Files) < 20 {
		t.Fatalf("only %d files seen: is this the root of the repository?", len(h.Files))
	}
	for _, r := range All {
		t.Run(r.Name, func(t *testing.T) {
			for _, line := range r.Broken(h) {
				t.Errorf("%s\n\trule: %s (%s)", line, r.Name, r.Reason)
			}
		})
	}
}

// TestRulesBite checks each rule with a tree that breaks it and one that does not.
func TestRulesBite(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o644} }
	script := func(text string, mode fs.FileMode) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("#!/usr/bin/env bash\n" + text), Mode: mode}
	}
	long := "package run\n" + strings.Repeat("\n", maxLines)
	const fails = "package runs\nimport \"ao/shared/fault\"\n"
	for _, tt := range []struct {
		name string
		path string
		file *fstest.MapFile
		want string // part of the only violation; empty: none
	}{
		{"worker uses nats", "worker/w.go", file("package worker\nimport _ \"ao/nats/bus\"\n"), ""},
		{"nats uses worker", "nats/bus/b.go", file("package bus\nimport _ \"ao/worker\"\n"),
			"ao/nats/bus may not use ao/worker"},
		{"coordinator meets worker", "coordinator/runs/c.go", file("package runs\nimport _ \"ao/worker\"\n"),
			"ao/coordinator/runs may not use ao/worker"},
		{"worker meets coordinator in a test", "worker/w_test.go",
			file("package worker\nimport _ \"ao/coordinator/projection\"\n"),
			"ao/worker may not use ao/coordinator/projection"},
		{"shared looks up", "shared/run/r.go", file("package run\nimport _ \"ao/shared/agent\"\n"),
			"ao/shared/run may not use ao/shared/agent"},
		{"fault knows nobody", "shared/fault/f.go", file("package fault\nimport _ \"ao/shared/strictjson\"\n"),
			"ao/shared/fault may not use ao/shared/strictjson"},
		{"the projection asks its owner", "coordinator/projection/j.go",
			file("package projection\nimport _ \"ao/coordinator/serve/parts\"\n"),
			"ao/coordinator/projection may not use ao/coordinator"},
		{"a room without a plan", "shared/attic/a.go", file("package attic\nimport _ \"ao/shared/run\"\n"),
			"ao/shared/attic has no row"},
		{"a test server in code", "worker/w.go", file("package worker\nimport _ \"ao/nats/natstest\"\n"),
			"ao/worker may not use ao/nats/natstest"},
		{"a test server in a test", "worker/w_test.go", file("package worker\nimport _ \"ao/nats/natstest\"\n"), ""},
		{"ao knows the coordinator", "coordinator/cmd/ao/main.go",
			file("package main\nimport _ \"ao/coordinator/serve/parts\"\n"),
			"ao/coordinator/cmd/ao may not use ao/coordinator"},

		{"a sentence without end", "shared/docs/runs.md", file("# Runs\n\n- A" + strings.Repeat(" b", 15) + "\n  " +
			strings.Repeat("`c d` ", 15) + ".\n"), "shared/docs/runs.md:3: a sentence of 31 words"},
		{"sentences that end", "shared/docs/runs.md", file(strings.Repeat("A [b](c d e). ", 40) + "\n"), ""},
		{"a long row and a long command", "shared/docs/runs.md", file("| " + strings.Repeat("a ", 40) + "|\n\n    " +
			strings.Repeat("b ", 40) + "\n"), ""},
		{"a comment without end", "worker/w.go", file("package worker\n\n// X is" + strings.Repeat(" b", 12) + "\n//" +
			strings.Repeat(" b", 12) + ".\nvar X int\n"), "worker/w.go:3: a sentence of 26 words"},
		{"a comment with a picture", "worker/w.go", file("package worker\n\n// X is this:\n//\n//\tb" +
			strings.Repeat(" b", 30) + "\nvar X int\n"), ""},

		{"a client uses the house", "shared/clients/go/client.go",
			file("package ao\nimport _ \"ao/shared/fault\"\n"), "ao/shared/clients/go may not use ao/shared/fault"},
		{"a client needs a module", "shared/clients/go/go.mod", file("module ao\n\nrequire example.org/x v1.0.0\n"),
			"go.mod:3: needs a package"},
		{"a client needs a package", "shared/clients/typescript/src/index.ts", file("import x from \"x\";\n"),
			"index.ts:1: needs a package"},
		{"a client grows", "shared/clients/python/ao_client/more.py", file(strings.Repeat("\n", maxLines)),
			"shared/clients/python: "},

		{"a page sets HTML", "coordinator/dashboard/ui/dist/app.js", file("el.innerHTML = text;\n"),
			"dist/app.js:1 uses innerHTML"},
		{"a page sets text", "coordinator/dashboard/ui/dist/app.js", file("el.textContent = text; evaluate(text);\n"),
			""},
		{"a page that is in no bundle", "coordinator/dashboard/ui/pages/run.js", file("show();\n"),
			"ui/pages/run.js is not as it was bundled"},
		{"a page that was deleted", "coordinator/dashboard/ui/dist/sources.txt",
			file("0123456789abcdef pages/run.js\n"), "ui/pages/run.js is not as it was bundled"},
		{"a vendored bundle", "coordinator/dashboard/ui/vendor/base-0.js", file("show();\n"), ""},
		{"a second door to schemas", "shared/agent/a.go",
			file("package agent\nimport _ \"github.com/qri-io/jsonschema\"\n"),
			"only ao/shared/schema may use github.com/qri-io/jsonschema"},
		{"nats.go in subject", "nats/subject/s.go", file("package subject\nimport _ \"github.com/nats-io/nats.go\"\n"),
			"may use github.com/nats-io/nats.go"},
		{"nats.go in the coordinator", "coordinator/runs/c.go",
			file("package runs\nimport _ \"github.com/nats-io/nats.go/jetstream\"\n"),
			"may use github.com/nats-io/nats.go/jetstream"},
		{"nats.go in bus", "nats/bus/b.go", file("package bus\nimport _ \"github.com/nats-io/nats.go\"\n"), ""},
		{"gin in the projection", "coordinator/projection/j.go",
			file("package projection\nimport _ \"github.com/gin-gonic/gin\"\n"),
			"only ao/coordinator/httpapi may use github.com/gin-gonic/gin"},
		{"gin in httpapi", "coordinator/httpapi/h.go", file("package httpapi\nimport _ \"github.com/gin-gonic/gin\"\n"),
			""},
		{"a peer in the product", "coordinator/ledger/l.go",
			file("package ledger\nimport _ \"github.com/jackc/pgx/v5\"\n"),
			"only ao/scripts/bench/peers may use github.com/jackc/pgx/v5"},
		{"a peer where it is measured", "scripts/bench/peers/r.go",
			file("package main\nimport _ \"github.com/riverqueue/river\"\n"), ""},
		{"programs started elsewhere", "worker/procedural/p.go", file("package procedural\nimport _ \"os/exec\"\n"),
			"may use os/exec"},

		{"a server that requires a terminal", "coordinator/go.mod",
			file("module ao/coordinator\n\nrequire (\n\tgolang.org/x/term v0.47.0\n)\n"),
			"only coordinator/cmd/ao/go.mod, scripts/allinone/go.mod may require golang.org/x/term"},
		{"a terminal by way of something", "worker/go.mod",
			file("module ao/worker\n\nrequire github.com/spf13/pflag v1.0.9 // indirect\n"),
			"worker/go.mod: only coordinator/cmd/ao/go.mod, scripts/allinone/go.mod may require github.com/spf13"},
		{"ao has a terminal", "coordinator/cmd/ao/go.mod",
			file("module ao/coordinator/cmd/ao\n\nrequire golang.org/x/term v0.47.0\n"), ""},

		{"a package named for nothing", "shared/utils/u.go", file("package utils\n"), "package utils says nothing"},
		{"a folder named for nothing", "shared/helpers/u.go", file("package aid\n"), "package aid says nothing"},

		{"500 lines", "shared/run/r.go", file(long[:len(long)-1]), ""},
		{"501 lines", "shared/run/r.go", file(long), "501 lines"},
		{"501 lines of test", "shared/run/r_test.go", file(long), ""},

		{"a stranger at the top", "pkg/x.txt", file("x"), "pkg/x.txt: does not belong at the top level"},
		{"another compose file", "docker-compose.cluster.yml", file("x"), ""},

		{"a note in code", "shared/run/r.go", file("package run // TO" + "DO: later\n"), "shared/run/r.go:1: TO" +
			"DO"},
		{"a note in a script", "scripts/x", script("# FIX"+"ME\n", 0o755), "scripts/x:2: FIX" + "ME"},
		{"context.TO" + "DO()", "shared/run/r.go", file("package run\nvar _ = context.TO" + "DO()\n"),
			"shared/run/r.go:2"},
		{"a word that only contains it", "shared/run/r.go", file("package run // TO" + "DOR\n"), ""},

		{"a sleep in a test", "shared/run/r_test.go", file("package run\nfunc f() { time.Sleep(1) }\n"),
			"r_test.go:2:12: time.Sleep"},
		{"a sleep in virtual time", "shared/run/r_test.go",
			file("package run\nfunc f() { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }\n"), ""},
		{"a poll of one's own", "shared/run/r_test.go",
			file("package run\nfunc f() { for !ok() { time.Sleep(2 * time.Millisecond) } }\n"), "time.Sleep"},
		{"a sleep in code", "shared/run/r.go", file("package run\nfunc f() { time.Sleep(1) }\n"), ""},

		{"a test that is not there", "shared/docs/security.md", file("| x | y | `shared/run.TestGone` | |\n"),
			"there is no test shared/run.TestGone"},
		{"a test that another document names", "shared/docs/http.md", file("`shared/run.TestGone`\n"), ""},

		{"a secret that is written open", "README.md",
			file("    cat seed >~/.config/ao/publisher.nk    # for programs\n"),
			"README.md:1: ~/.config/ao/publisher.nk is open"},
		{"a secret in the repository", "shared/docs/x.md", file("    (umask 077; cat seed >publisher.nk)\n"),
			"x.md:1: publisher.nk lies in the repository"},
		{"a copied secret in the repository", "shared/docs/x.md",
			file("    sudo install -D -m 0400 -o 10001 KEYFILE .secrets/llm_api_key   # here\n"),
			"x.md:1: .secrets/llm_api_key lies in the repository"},
		{"a secret in a text of help", "coordinator/cmd/ao/x.go",
			file("package main\n\nconst about = `ao tokens create | tee /etc/ao/ci.token`\n"),
			"x.go:3: /etc/ao/ci.token is open"},
		{"a closed secret", "README.md",
			file("    (umask 077; cat seed >~/.config/ao/publisher.nk)\n    sudo install " +
				"-m 0400 KEYFILE ~/.config/ao/llm_api_key # a\n"), ""},
		{"a secret that is only used", "README.md", file("    nats --nkey publisher/nats.nk request x >/dev/null; " +
			"AO_TOKEN=\"$(cat /etc/ao/client/admin.token)\" ao\n"), ""},

		{"a controller that asks four", "coordinator/control/lease/x.go",
			file("package lease\ntype four interface{ F() }\ntype x struct {\n\ta, b interface{ F() }\n\tc four\n\td " +
				"interface{ G() }\n}\n"),
			"ao/coordinator/control/lease.x asks 4 interfaces and functions, 3 are the most"},
		{"a controller that asks functions", "coordinator/control/lease/x.go",
			file("package lease\ntype ask func()\ntype cfg struct {\n\ta, b interface{ F() }\n\tc ask\n}\ntype x " +
				"struct {\n\tcfg\n\td func()\n}\n"), "ao/coordinator/control/lease.x asks 4 interfaces and functions"},
		{"a controller that asks for much", "coordinator/control/lease/x.go",
			file("package lease\ntype y interface {\n" + strings.Repeat("\tF()\n", 9) +
				"}\ntype x struct {\n\ta interface {\n\t\ty\n\t\tG()\n\t}\n}\n"),
			"ao/coordinator/control/lease.x asks an interface of 10 methods"},
		{"one that asks three", "coordinator/control/lease/x.go",
			file("package lease\ntype x struct {\n\ta, b interface{ F() }\n\tc interface{ G() }\n\td int\n}\n"), ""},

		{"several records at once", "coordinator/runs/x.go", file("package runs\nfunc f() { b.AppendBatch() }\n"),
			"f writes several records at once"},
		{"by another name", "coordinator/runs/x.go", file("package runs\nfunc (c C) f() { c.AppendEither() }\n"),
			"f writes several records at once"},
		{"a use whose test is gone", "coordinator/runs/submit.go",
			file("package runs\nfunc store() { b.AppendBatch() }\n"),
			"there is no test coordinator/serve/parts.TestAPrefixOfASessionAndItsRun"},
		{"a use that is gone", "coordinator/runs/submit.go", file("package runs\n"),
			"coordinator/runs/submit.go:store writes no batch any more"},
		{"a measurement", "scripts/bench/x.go", file("package main\nfunc f() { b.AppendBatch() }\n"), ""},

		{"a code on no page", "coordinator/runs/x.go",
			file(fails + "var err = fault.New(fault.Conflict, \"odd\", \"\")\n"),
			"x.go:3: the code odd is in no table of the HTTP answers in shared/docs/http.md"},
		{"of a run's end", "coordinator/runs/x.go",
			file(fails + "const unusual = \"odd\"\n\nvar err = fault.Wrap(fault.Internal, unusual, \"\", nil)\n"),
			"x.go:5: the code odd is in no table of the ends of runs"},
		{"by way of a parameter", "coordinator/runs/x.go", file("package runs\nconst codeOdd = \"odd\"\n"),
			"x.go:2: the code odd"},
		{"that is set later", "coordinator/runs/x.go", file("package runs\nfunc f() { x.Code = \"odd\" }\n"),
			"x.go:2: the code odd"},
		{"in a body written by hand", "coordinator/runs/x.go", file("package runs\nvar b = `{\"error\":\"odd\"}`\n"),
			"x.go:2: the code odd"},
		{"the code of another error", "coordinator/runs/x.go",
			file(fails + "var err = fault.New(fault.Conflict, x.Code, \"\")\n"), ""},
		{"a code that nothing uses", "shared/docs/http.md", file("| HTTP | code |\n|---|---|\n| 409 | `odd` |\n"),
			"shared/docs/http.md: nothing uses the code odd"},
		{"of an executor's", "shared/docs/llm.md", file("| code | |\n|---|---|\n| `odd` | |\n"),
			"shared/docs/llm.md: nothing uses the code odd"},
		{"a table of other things", "shared/docs/http.md", file("| field | |\n|---|---|\n| `odd` | |\n"), ""},

		{"25 methods", "worker/x.go", file(wide("package worker\n", 25)), ""},
		{"26 methods", "worker/x.go", file(wide("package worker\n", 26)),
			"ao/worker.x has 26 methods, 25 are the most"},
		{"26 methods in a test", "worker/x_test.go", file(wide("package worker\n", 26)), ""},
		{"26 methods of who wires all", "coordinator/serve/x.go", file(wide("package serve\n", 26)), ""},
		{"26 methods by embedding", "worker/x.go",
			file(wide("package worker\ntype y struct { *x }\nfunc (y) own() {}\n", 25)), "ao/worker.y has 26 methods"},
		{"26 methods of a part of the bus", "nats/bus/x.go", file(wide("package bus\n", 26)),
			"ao/nats/bus.x has 26 methods, 25 are the most"},
		{"26 methods of the bus by embedding", "nats/bus/x.go",
			file(wide("package bus\ntype y struct { *x }\nfunc (y) own() {}\n", 25)), ""},
		{"26 methods asked for", "worker/x.go", file("package worker\ntype x interface {\n" +
			strings.Repeat("\tF()\n", 26) + "}\n"), "ao/worker.x has 26 methods"},
		{"26 methods asked for by embedding", "worker/x.go",
			file("package worker\ntype x interface {\n\ty\n\tG()\n}\ntype y interface {\n" +
				strings.Repeat("\tF()\n", 25) + "}\n"), "ao/worker.x has 26 methods"},
		{"9 fields of others, some within a struct", "worker/x.go",
			file("package worker\nimport r \"ao/shared/run\"\ntype x struct {\n\ta, b, c, d, e r.Run\n\tin struct {\n" +
				"\t\tf, g, h, i r.Run\n\t}\n}\n"), "ao/worker.x has 9 fields of other packages' types"},
		{"9 fields of others by another name", "worker/x.go", file("package worker\nimport r \"ao/shared/run\"\ntype " +
			"alias = r.Run\ntype x struct{ a, b, c, d, e, f, g, h, i alias }\n"),
			"ao/worker.x has 9 fields of other packages' types"},
		{"another package's names as one's own", "worker/x.go", file("package worker\nimport . \"ao/shared/run\"\n"),
			"worker/x.go: imports a package's names as its own"},
		{"8 fields of others", "worker/x.go", file(knowing(8)), ""},
		{"9 fields of others", "worker/x.go", file(knowing(9)),
			"ao/worker.x has 9 fields of other packages' types, 8 are the most"},
		{"another's lock", "worker/process/x.go", file("package process\nfunc (x *x) f() { x.y.mu.RLock() }\n"),
			"worker/process/x.go:2:19: takes the lock of another type: ao/worker/process"},
		{"another's lock in a constructor", "worker/process/x.go",
			file("package process\nvar _ = func() { x.y.mu.Lock() }\n"), "takes the lock of another type"},
		{"another's lock by a name of its own", "worker/process/x.go",
			file("package process\nfunc (x *x) f() { y := x.y; y.mu.Lock() }\n"), "takes the lock of another type"},
		{"another's lock under another name", "worker/process/x.go",
			file("package process\nfunc (x *x) f() { x.y.writing.Lock() }\n"), "takes the lock of another type"},
		{"another's lock, handed on", "worker/process/x.go",
			file("package process\nfunc (x *x) f() { g(x.y.mu.Lock) }\n"), "takes the lock of another type"},
		{"another's lock in a function", "worker/process/x.go", file("package process\nfunc f(y *y) { y.mu.Lock() }\n"),
			"takes the lock of another type"},
		{"a lock that is embedded", "worker/process/x.go", file("package process\ntype x struct{ sync.Mutex }\n"),
			"a lock that everybody can take"},
		{"a lock in a function beside its type", "worker/process/x.go",
			file("package process\ntype y[T any] struct{ mu sync.Mutex }\nfunc f[T any](y *y[T]) { y.mu.Lock() }\n"),
			""},
		{"the own lock", "worker/process/x.go",
			file("package process\nfunc (x *x) f() { x.mu.Lock(); defer x.mu.Unlock() }\n"), ""},

		{"121 columns", "shared/run/r.go", file("package run\n\n//" + strings.Repeat("x", 119)), "r.go:3: 121 columns"},
		{"120 columns", "shared/run/r.go", file("package run\n\n//" + strings.Repeat("ä", 118)), ""},
		{"121 columns with a tab", "shared/run/r_test.go",
			file("package run\n\nvar (\n\t//" + strings.Repeat("x", 115) + "\n)\n"), "r_test.go:4: 121 columns"},
		{"121 columns of generated code", "shared/run/r.go",
			file("// Code generated by x. DO NOT EDIT.\n\npackage run\n\n//" + strings.Repeat("x", 119)), ""},
		{"121 columns of an exempt file", longLines[0], file("package schema\n\n//" + strings.Repeat("x", 119)), ""},
		{"121 columns of another language", "shared/run/r.md", file(strings.Repeat("x", 121)), ""},

		{"an assignment in an if", "shared/run/r.go",
			file("package run\n\nfunc f() {\n\tif x = y; x {\n\t}\n}\n"), "r.go:4:5: an assignment in an if"},
		{"an assignment in an else", "shared/run/r_test.go",
			file("package run\n\nfunc f() {\n\tif x {\n\t} else if x, z = y(); z {\n\t}\n}\n"),
			"r_test.go:5:12: an assignment in an if"},
		{"a declaration in an if", "shared/run/r.go",
			file("package run\n\nfunc f() {\n\tif x := y; x {\n\t}\n}\n"), ""},

		{"a section of a contract", "shared/run/r.go",
			file("package run\n\n// f is what contract\n// section 4 says.\nfunc f() {}\n"),
			"r.go:3: contract section 4 is not in the repository"},
		{"a section of a design", "scripts/bundles/entries/x.js", file("// design section 12\n"),
			"design section 12 is"},
		{"an absent page", "shared/run/r.go", file("package run // see docs/none.md\n"), "r.go:1: docs/none.md is not"},
		{"an absent page, in code", "shared/run/r.go", file("package run\n\nvar x = \"docs/none.md\"\n"), ""},
		{"an absent decision", "scripts/x", script("true # decision 0099\n", 0o755), "x:2: decision 0099 is not"},
		{"an absent decision by name", "nats/server.conf", file("# see 0099-nothing-of-it.md\n"),
			"0099-nothing-of-it is"},

		{"a script", "scripts/x", script("echo\n", 0o755), ""},
		{"a script without its run bit", "scripts/x", script("echo\n", 0o644), "is not executable"},
		{"a script that bash cannot read", "scripts/x", script("if\n", 0o755), "bash reports a syntax error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, err := Read(fstest.MapFS{tt.path: tt.file})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range All {
				got = append(got, r.Broken(h)...)
			}
			switch {
			case tt.want == "" && len(got) == 0:
			case tt.want != "" && len(got) == 1 && strings.Contains(got[0], tt.want):
			default:
				t.Errorf("got %q, want one line with %q", got, tt.want)
			}
		})
	}
}

// wide returns a package whose type x has n methods.
func wide(text string, n int) string {
	for i := range n {
		text += fmt.Sprintf("func (*x) f%d() {}\n", i)
	}
	return text + "type x struct{}\n"
}

// knowing returns a package whose type x has n fields of another package's types.
func knowing(n int) string {
	return "package worker\nimport r \"ao/shared/run\"\ntype x struct {\n\tn int\n" +
		strings.Repeat("\ta map[string]*r.Run\n", n) + "}\n"
}

// TestCitations: comments may cite what is in the repository.
func TestCitations(t *testing.T) {
	h, err := Read(fstest.MapFS{
		"worker/w.go":                       {Data: []byte("package worker // decision 0007, docs/x.md\n")},
		"worker/v.go":                       {Data: []byte("package worker // shared/docs/decisions/0007-a-b.md\n")},
		"shared/docs/x.md":                  {},
		"shared/docs/decisions/0007-a-b.md": {},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := citations(h); len(got) != 0 {
		t.Errorf("got %q, want no violation", got)
	}
}

func TestFewImporters(t *testing.T) {
	h := &House{}
	for i := range maxImporters + 1 {
		one, err := read(fstest.MapFS{
			"x.go": {Data: []byte("package x\nimport _ \"ao/coordinator/runners\"\nimport _ " +
				"\"ao/coordinator/projection\"\n")}}, "x.go")
		if err != nil {
			t.Fatal(err)
		}
		one.Path = fmt.Sprintf("coordinator/x%d/x.go", i)
		h.Files = append(h.Files, one)
		if i < maxImporters && len(fewImporters(h)) != 0 {
			t.Errorf("%d importers are too many: %q", i+1, fewImporters(h))
		}
	}
	if got := fewImporters(h); len(got) != 1 ||
		!strings.HasPrefix(got[0],
			"ao/coordinator/runners is imported by 7 packages, 6 are the most: ao/coordinator/x0, ") {
		t.Errorf("got %q", got)
	}
}

func TestReadLeavesOut(t *testing.T) {
	h, err := Read(fstest.MapFS{
		".gitignore":           {Data: []byte("/.ao/\n/bin/\n*.prof\n")},
		".git/config":          {},
		".ao/jetstream/1.blk":  {},
		"bin/ao":               {},
		"worker/bin/a.sh":      {},
		"cpu.prof":             {},
		"worker/cpu.prof":      {},
		"shared/testdata/x.go": {Data: []byte("not Go")},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range h.Files {
		got[f.Path] = true
	}
	if paths := slices.Sorted(maps.Keys(got)); !slices.Equal(paths, []string{".gitignore", "worker/bin/a.sh"}) {
		t.Errorf("got %q", paths)
	}
}
