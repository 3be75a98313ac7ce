package browser

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestTwoCoordinatorsByTurns: two coordinators behind a load balancer, one of them always 0.4 s behind. Started and
// stopped runs show on the next page; no row goes back or is lost.
func TestTwoCoordinatorsByTurns(t *testing.T) {
	t.Parallel()
	nats := freeAddr(t)
	a := ownStack(t, "AO_NATS_LISTEN="+nats)
	var late atomic.Int64
	b := a.addCoordinator(t, relay(t, nats, &late))
	late.Store(int64(400 * time.Millisecond))
	d := newBalancer(t, a, b)
	a.agent(t, "turns")
	eventually(t, "the other one knows the agent", func() bool { return b.status("/agents/turns") == 200 })

	p := open(t, d.stack, "/ui/runs?agent_name=turns")
	p.has("Live")
	eval[bool](p, watchScript)
	const started = 3
	for n := range started {
		p.goTo("/ui/new?agent=turns")
		p.until(at("$.prompt") + `?.value === ""`)
		p.fill("$.prompt", "@sleep 600s")
		p.click("Start run")
		p.until(`location.pathname.startsWith("/ui/runs/run_")`)
		p.until(`/running|pending|claimed/.test(document.querySelector("h1")?.innerText)`)
		id := strings.TrimPrefix(p.path(), "/ui/runs/")
		if n%2 == 0 {
			eventually(t, "it runs",
				func() bool { return strings.Contains(a.call(t, "GET", "/runs/"+id, "", 200), `"status":"running"`) })
			p.click("Stop")
			p.click("Stop it")
			p.until(`document.querySelector("h1")?.innerText.includes("stopped")`)
		}
		eval[bool](p, `(watched.known.add("/ui/runs/`+id+`"), true)`)
		p.goTo("/ui/runs?agent_name=turns")
		p.until(fmt.Sprintf(`document.querySelectorAll("tbody tr").length === %d`, n+1))
	}

	// A read directly after a write, in the page itself, is never stale.
	p.until(`document.querySelectorAll("tbody tr").length === 3`)
	if missing := eval[[]string](p, startStopScript); len(missing) > 0 {
		t.Errorf("a list asked for straight after a run was started or stopped: %q", missing)
	}

	// Changes by others, over both coordinators, appear by themselves.
	for n := range 10 {
		s := []*stack{a, b}[n%2]
		s.run(t, fmt.Sprintf(`{"agent_name":"turns","prompt":"@say other %d."}`, n))
	}
	p.until(`(() => { [...document.querySelectorAll("button")].find((b) => b.textContent.includes("new run"))?.click();
		return [...document.querySelectorAll("tbody tr")].filter((r) => r.innerText.includes("completed")).length ` +
		`=== 10; })()`)
	if n := eval[int](p,
		`new Set([...document.querySelectorAll("tbody a.name")].map((a) => a.pathname)).size`); n != started+6+10 {
		t.Errorf("%d runs are shown, want %d, each once", n, started+6+10)
	}
	for _, wrong := range eval[[]string](p, `watched.wrong`) {
		t.Error(wrong)
	}
}

// startStopScript starts and stops runs and reads the list after each, with the functions of the pages.
const startStopScript = `(async () => {
	const { get, send } = (await import(document.querySelector("script[type=module]").src)).api;
	const missing = [];
	const list = async () => (await get("/runs", {agent_name: "turns"})).runs;
	for (let n = 0; n < 6; n++) {
		const { run_id } = await send("POST", "/runs", '{"agent_name":"turns","prompt":"x",` +
	`"additional_demands":{"tags":["nowhere"]}}');
		if (!(await list()).some((r) => r.run_id === run_id)) missing.push(run_id + " is not there");
		if (n % 2) await get("/status"); // so that the other one has the next turn
		await send("POST", "/runs/" + run_id + "/stop");
		const now = (await list()).find((r) => r.run_id === run_id)?.status;
		if (now !== "stopped") missing.push(run_id + " is " + now);
	}
	return missing;
})()`

// watchScript records in watched.wrong every run that disappears or goes back to an earlier state.
const watchScript = `(() => {
	const rank = {pending: 0, claimed: 1, running: 2, stopping: 3, completed: 4, failed: 4, stopped: 4};
	const seen = new Map();
	const note = (text) => watched.wrong.includes(text) || watched.wrong.push(text);
	window.watched = {wrong: [], known: new Set()};
	const state = (id, text) => {
		const now = rank[text.trim()];
		if (now === undefined) return;
		if (now < (seen.get(id)?.rank ?? 0)) note(id + " was " + seen.get(id).text + ", and is " + text);
		else seen.set(id, {rank: now, text});
	};
	const look = () => {
		if (document.querySelector(".failed")) note("a page failed: " + document.querySelector(".failed").innerText);
		const heading = document.querySelector("h1 .status");
		if (heading && location.pathname.startsWith("/ui/runs/run_")) state(location.pathname, heading.innerText);
		const rows = [...document.querySelectorAll("table[aria-label=Runs] tbody tr")];
		const ids = new Set(rows.map((r) => r.querySelector("a.name")?.pathname));
		for (const r of rows) state(r.querySelector("a.name").pathname, r.querySelector(".status").innerText);
		if (rows.length > 0 || location.pathname === "/ui/runs" && document.querySelector(".state.empty"))
			for (const id of watched.known) if (!ids.has(id)) note(id + " is not in the list, which has " + ids.size);
		if (rows.length > 0) ids.forEach((id) => watched.known.add(id));
	};
	new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true});
	return true;
})()`

// goTo navigates like a link, without loading a new document.
func (p *page) goTo(path string) {
	p.t.Helper()
	eval[bool](p, `(() => { const a = document.createElement("a"); a.href = "`+path+
		`"; document.querySelector("#main").append(a); a.click(); a.remove(); return true; })()`)
}

// addCoordinator starts another coordinator on this stack's NATS at the given address.
func (s *stack) addCoordinator(t *testing.T, nats string) *stack {
	t.Helper()
	addr := freeAddr(t)
	b := &stack{url: "http://" + addr, agents: s.agents, program: "coordinator"}
	b.env = append(append([]string{}, s.env...), "AO_HTTP_ADDR="+addr, "AO_NATS_URL=nats://"+nats, "AO_DATA_DIR="+
		t.TempDir())
	t.Cleanup(func() {
		b.end()
		if t.Failed() {
			t.Logf("the other coordinator's log ends:\n%s", tail(b.log.String(), 3000))
		}
	})
	b.launch(t)
	return b
}

// relay returns the address of a TCP relay that delays everything that comes back.
func relay(t *testing.T, to string, late *atomic.Int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { l.Close() })
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			wg.Go(func() { io.Copy(out, in); out.Close(); in.Close() })
			wg.Go(func() { delayed(in, out, late); in.Close(); out.Close() })
		}
	})
	return l.Addr().String()
}

// delayed copies data with a delay.
func delayed(to io.Writer, from io.Reader, late *atomic.Int64) {
	type piece struct {
		due  time.Time
		data []byte
	}
	pieces := make(chan piece, 1<<16)
	var wg sync.WaitGroup
	wg.Go(func() {
		for p := range pieces {
			<-time.After(time.Until(p.due))
			if _, err := to.Write(p.data); err != nil {
				for range pieces { // until the reader ends
				}
				return
			}
		}
	})
	for buf := make([]byte, 64<<10); ; {
		n, err := from.Read(buf)
		if n > 0 {
			pieces <- piece{time.Now().Add(time.Duration(late.Load())), append([]byte{}, buf[:n]...)}
		}
		if err != nil {
			break
		}
	}
	close(pieces)
	wg.Wait()
}
