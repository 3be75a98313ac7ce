package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"ao/scripts/try"
)

// Every executor appends the line "run attempt pid" to one file when it starts, and "run attempt end" when it ends by
// itself. Each line has 64 bytes: SIGKILL can cut a write only at a page boundary (Linux, generic_perform_write),
// which never falls inside a line.
const (
	recordStart = `printf '%-63s\n' "$AGENT_ORCHESTRATOR_RUN_ID $AGENT_ORCHESTRATOR_ATTEMPT $$" >> "%[1]s/begun"` + "\n"
	recordEnd   = `printf '%-63s\n' "$AGENT_ORCHESTRATOR_RUN_ID $AGENT_ORCHESTRATOR_ATTEMPT end" >> "%[1]s/begun"` +
		"\n"
)

// bigResult is the size of the text in the result of agent big, in bytes.
const bigResult = 400 << 10

// parseFlags parses --seconds and --until.
const parseFlags = `seconds=1 until=1
while [ $# -gt 1 ]; do case "$1" in --seconds) seconds=$2;; --until) until=$2;; esac; shift 2; done
`

// procedural are the scripts of the procedural agents.
var procedural = map[string]string{
	"quick": `echo '{"ok":true}'`,
	// It leaves a daemon, and a child that ignores SIGTERM and keeps the pipes open.
	"slow": parseFlags + `setsid sleep 300 </dev/null >/dev/null 2>&1 &
(trap '' TERM; sleep 300; sleep 300) &
sleep "$seconds"; echo '{"ok":true}'`,
	"big":   `printf '{"text":"'; head -c ` + fmt.Sprint(bigResult) + ` /dev/zero | tr '\0' x; printf '"}'`,
	"fails": `echo 'it went wrong' >&2; exit 3`,
	"hang": `(trap '' TERM; setsid sleep 300; sleep 300) &
trap 'exit 7' TERM; sleep 300 & wait; sleep 300`,
	"weigh": `n=0; for a in "$@"; do n=$((n+${#a})); done; echo "{\"bytes\":$n}"`,
	"flaky": parseFlags +
		`[ "$AGENT_ORCHESTRATOR_ATTEMPT" -ge "$until" ] || { echo 'not yet' >&2; exit 4; }; echo '{"ok":true}'`,
}

// talkerScript is the autonomous agent's executor. It stores its invocation for the verifier and obeys the beginning
// of the prompt.
const talkerScript = recordStart + `doc="%[1]s/prompts/$AGENT_ORCHESTRATOR_RUN_ID.$AGENT_ORCHESTRATOR_ATTEMPT"
cat > "$doc"
echo "{\"type\":\"bind\",\"executor_session_id\":\"model-$AGENT_SESSION_ID\"}"
echo '{"type":"event","event_type":"message","role":"assistant","content":[{"type":"text","text":"I heard you."}]}'
if grep -q '"prompt":"do=slow' "$doc"; then sleep 1; fi
if grep -q '"prompt":"do=fail' "$doc"; then echo 'it went wrong' >&2; exit 3; fi
if grep -q '"prompt":"do=hang' "$doc"; then (trap '' TERM; sleep 300) & sleep 300; fi
` + recordEnd + `echo '{"type":"result","result_type":"autonomous","result_text":"heard"}'
`

// writeFiles writes the agents, the profiles and the folders.
func (s *stack) writeFiles() (err error) {
	defer try.Catch(&err)
	files := map[string]string{
		"profiles/proc.json": `{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../agents",` +
			`"max_concurrent_runs":6,"env":["` + envToken + `"]}`,
		"profiles/talk.json": `{"type":"autonomous","command":"` + s.path("exec", "talk") +
			`","max_concurrent_runs":6,"env":["` + envToken + `"]}`,
		"exec/talk": script(s.dir, talkerScript),
		"own/talker/agent.json": `{"name":"talker","description":"keeps what it is told","type":"autonomous",` +
			`"demands":{"executor_profile":"talk"}}`,
		"begun": "",
	}
	for name, text := range procedural {
		files["agents/"+name+"/agent.json"] = fmt.Sprintf(
			`{"name":%q,"description":"of a fault test","type":"procedural","command":"./run"}`, name)
		files["agents/"+name+"/run"] = script(s.dir, recordStart) + text + "\n"
	}
	for _, dir := range []string{"logs", "work", "prompts", "bin"} {
		try.Check(os.MkdirAll(s.path(dir), 0o755))
	}
	for name, text := range files {
		try.Check(os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
		try.Check(os.WriteFile(s.path(name), []byte(text), 0o755))
	}
	return nil
}

func script(dir, text string) string { return "#!/bin/sh\n" + strings.ReplaceAll(text, "%[1]s", dir) }
