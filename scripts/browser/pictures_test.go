package browser

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var (
	screenshots = flag.Bool("screenshots", false, "write the pictures of shared/docs/dashboard.md anew")
	record      = flag.Bool("record", false, "with -screenshots: record anew what the pictures show, in four minutes")
	pictures    = flag.String("pictures", "", "folder for pictures of every page, narrow and wide, in light and dark "+
		"colours, with much to show and with nothing")
)

const maxPicture = 150 << 10 // bytes

// TestScreenshots writes what the documents show, from a recording. Look at each before it is committed.
func TestScreenshots(t *testing.T) {
	if !*screenshots {
		t.Skip("-screenshots writes the pictures of the documents")
	}
	s := ownStack(t)
	if *record {
		s.record(t)
	}
	r := &recorder{plays: true, recording: readRecording(t)}
	at := r.behind(t, s)
	dir := "../../shared/docs/dashboard"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, one := range r.Pages {
		r.show(one.Name)
		p := at.still(t, one)
		if one.Name == overview {
			for n := r.left("/status"); n > 0; n-- {
				eventually(t, "another answer is played", func() bool { return r.left("/status") < n })
			}
		}
		shot := paletted(t, p.picture(one.Theme, 1280, 800))
		if len(shot) > maxPicture {
			t.Errorf("%s has %d bytes, %d are the most", one.Name, len(shot), maxPicture)
		}
		if err := os.WriteFile(filepath.Join(dir, one.Name+".png"), shot, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// overview is the page whose curves need answers for a while.
const overview = "overview"

// record makes the recording that the pictures are taken of.
func (s *stack) record(t *testing.T) {
	t.Helper()
	r := &recorder{recording: recording{Answers: map[string][]answer{}}}
	at := r.behind(t, s)
	f := product{s, t}
	f.agents()
	f.history()
	<-time.After(2 * time.Minute) // what was before looks like an hour's work
	f.underway()
	session, rejected := f.family(), f.rejected()
	r.Pages = []shot{
		{"run", "/ui/runs/" + rejected, "light"},
		{"session", "/ui/sessions/" + session, "light"}, {"tree", "/ui/sessions/" + session + "/tree", "dark"},
		{"agent", "/ui/agents/report-writer?tab=output", "light"}, {"newrun", "/ui/new?agent=report-writer", "dark"},
		{"runs", "/ui/runs", "dark"}, {overview, "/ui/", "light"},
	}
	for _, one := range r.Pages {
		r.show(one.Name)
		stop := func() {}
		if one.Name == overview {
			stop = f.works()
		}
		p := tab(t, at, one.Path)
		p.settled()
		if one.Name == overview {
			<-time.After(40 * time.Second)
		}
		stop()
		p.picture(one.Theme, 1280, 800)
		p.end()
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer(filepath.Dir(s.agents), "/var/lib/ao", bin, "/opt/ao/bin",
		here, "/srv/ao", host, "worker-1")
	r.made(time.Now(), names)
	r.write(t)
}

// still is a page whose clock stands still, with times in UTC, where nothing moves.
func (s *stack) still(t *testing.T, one shot) *page {
	t.Helper()
	p := show(t, s, "/ui/nothing-here", chromium, nil, chromedp.WithNewBrowserContext())
	p.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		script := cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: fmt.Sprintf(stopped, shownAt.UnixMilli())}
		_, err := cdp.Call(ctx, tab, cdppage.AddScriptToEvaluateOnNewDocument, script)
		calm := emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}},
		}
		_, still := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, calm)
		return errors.Join(err, still)
	}), chromedp.Navigate(s.url+one.Path))
	p.settled()
	return p
}

const stopped = `(() => {
	const now = %d, Real = Date;
	window.Date = class extends Real {
		constructor(...args) { args.length ? super(...args) : super(now); }
		static now() { return now; }
	};
	localStorage.setItem("ao-zone", "utc");
})()`

// TestPictures writes pictures of all pages for a review.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("-pictures DIR writes pictures of every page")
	}
	s := ownStack(t)
	list := []string{"/ui/", "/ui/runs", "/ui/sessions", "/ui/agents", "/ui/schemas", "/ui/new", "/ui/runners",
		"/ui/queues", "/ui/callbacks", "/ui/settings", "/ui/settings?tab=doctor", "/ui/settings?tab=settings",
		"/ui/settings?tab=audit"}
	s.pictures(t, "none", append(list, "/ui/nothing-here", "/ui/runs/run_1", "/ui/login"))
	f := s.createFixtures(t)
	for _, tab := range strings.Fields("general input output prompt servers runners json") {
		list = append(list, "/ui/agents/report-reader?tab="+tab)
	}
	s.pictures(t, "much", append(list, "/ui/?first="+f.parent, "/ui/runs?status=failed", "/ui/runs?q=zebra",
		"/ui/runs/"+f.rejected, "/ui/runs/"+f.waiting, "/ui/runs/"+f.hostile, "/ui/sessions/"+f.parent,
		"/ui/sessions/"+f.parent+"/tree", "/ui/agents/text-stats", "/ui/schemas/finding", "/ui/new?agent=report-reader",
		"/ui/new?retry="+f.rejected))
}

// pictures takes each page narrow, wide and very wide, in both themes.
func (s *stack) pictures(t *testing.T, kind string, paths []string) {
	t.Helper()
	for n, path := range paths {
		p := s.waitForPicture(t, path)
		for _, theme := range []string{"light", "dark"} {
			for _, size := range [][2]int64{{360, 780}, {1280, 800}, {2560, 1300}} {
				name := fmt.Sprintf("%s-%02d-%d-%s.png", kind, n, size[0], theme)
				if err := os.WriteFile(filepath.Join(*pictures, name), p.picture(theme, size[0], size[1]),
					0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// waitForPicture opens a page in a new tab, because a page with a draft asks before it is left.
func (s *stack) waitForPicture(t *testing.T, path string) *page {
	t.Helper()
	p := tab(t, s, path)
	p.settled()
	return p
}

// picture returns the page in a window of this size.
func (p *page) picture(theme string, width, height int64) []byte {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height))
	eval[bool](p, `(document.documentElement.dataset.theme = "`+theme+`", true)`)
	p.until(`!document.querySelector(".skeleton, .md.plain")`)
	eval[bool](p, `new Promise((done) => setTimeout(() => done(true), 300))`) // what slides and fades
	shot, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	return shot
}

// paletted reduces a picture to its 256 most frequent colours.
func paletted(t *testing.T, raw []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[color.Color]int{}
	b := from.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			counts[from.At(x, y)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(counts), func(x, y color.Color) int { return counts[y] - counts[x] })
	to := image.NewPaletted(b, all[:min(len(all), 256)])
	draw.Draw(to, b, from, b.Min, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// fixtureIDs are the ids of the created data.
type fixtureIDs struct{ parent, rejected, waiting, hostile string }

// createFixtures creates data as after some work.
func (s *stack) createFixtures(t *testing.T) (f fixtureIDs) {
	t.Helper()
	s.call(t, "POST", "/schemas", `{"name":"finding","description":"What a reader of reports has found",`+
		`"schema":{"type":"object","required":["title","severity"],"properties":{"title":{"type":"string"},`+
		`"severity":{"enum":["low","medium","high"]}}}}`, 201)
	s.call(t, "POST", "/schemas",
		`{"name":"person","description":"A name and where it stands","schema":{"type":"object","required":["name"]}}`,
		201)
	s.call(t, "POST", "/agents",
		`{"name":"report-reader","type":"autonomous","executor_profile":"test","description":"Reads a report and `+
			`tells what matters in it, for people who have a minute","system_prompt":"You read reports. Tell what `+
			`has changed, and what somebody has to decide.",
		"parameters_schema":{"type":"object","required":["prompt","audience"],`+
			`"properties":{"prompt":{"type":"string","title":"What to read for","description":"One or two `+
			`sentences"},"audience":{"enum":["team","board","public"],"description":"Who reads it"},`+
			`"pages":{"type":"integer","minimum":1,"maximum":400,"default":20},"urgent":{"type":"boolean"},`+
			`"topics":{"type":"array","items":{"type":"string"}}}},
		"output_schema":{"type":"object","required":["title","severity","changes"],`+
			`"properties":{"title":{"type":"string","maxLength":80},"severity":{"enum":["low","medium","high"]},`+
			`"changes":{"type":"array","items":{"type":"string"}}}},
		"mcp_servers":{"files":{"command":"mcp-files","args":["--root","/srv/reports"],`+
			`"env":{"TOKEN":"not-to-be-shown"}}}}`, 201)
	s.call(t, "PUT", "/agents/report-reader/drafts/input", `{"type": "object", "required": ["prompt", `, 204)
	for _, name := range []string{"analyst", "fact-checker", "translator",
		"editor-of-the-long-quarterly-report-for-the-board"} {
		s.agent(t, name)
	}
	f.parent = s.createFamily(t)
	schema := `{"type":"object","required":["title","severity"],"properties":{"title":{"type":"string"},` +
		`"severity":{"enum":["low","medium","high"]}}}`
	f.rejected, _ = s.finished(t, `{"agent_name":"analyst","prompt":"@say Looking at the figures of the third `+
		`quarter\n@tool read {\"path\":\"/srv/reports/q3.md\",\"from\":1} => {\"lines\":412,`+
		`\"size\":9223372036854775807}\n@metadata {\"model\":\"example-model\",\"usage\":{\"input_tokens\":18234,`+
		`\"output_tokens\":912},\"total_cost_usd\":0.0712}\n@json {\"title\":7,\"severity\":\"grave\"}",`+
		`"output_schema":`+schema+`}`)
	f.waiting, _ = s.run(t, `{"agent_name":"translator","prompt":"Translate the report",`+
		`"additional_demands":{"hostname":"gpu-host-17.internal.example","tags":["gpu",`+
		`"a-very-long-tag-of-a-runner"]}}`)
	f.hostile, _ = s.finished(t, `{"agent_name":"fact-checker","prompt":"@fail refused The source at `+
		`https://example.org/a/very/long/address/that/does/not/end/for/a/while?with=parameters\u202egnp.exe `+
		`does not answer"}`)
	for n := range 140 {
		body := fmt.Sprintf(`{"agent_name":"analyst","prompt":"@say Chapter %d of the report is as it was last year, `+
			`but for the table of costs"}`, n)
		switch n % 7 {
		case 3:
			body = fmt.Sprintf(
				`{"agent_name":"fact-checker","prompt":"@fail source_unreachable Source %d does not answer"}`, n)
		case 5:
			body = fmt.Sprintf(`{"agent_name":"text-stats","parameters":{"file":"doc.go","top":%d}}`, n)
		}
		s.run(t, body)
	}
	for range 3 {
		s.run(t, `{"agent_name":"editor-of-the-long-quarterly-report-for-the-board","prompt":"@say I `+
			`begin\n@sleep 900s"}`)
	}
	return f
}

// createFamily creates a session with children, one of which fails, that continues when they have ended.
func (s *stack) createFamily(t *testing.T) (session string) {
	t.Helper()
	ask := func(agent, prompt string) string {
		return `@child ` + agent + ` async_callback {\"prompt\":\"` + prompt + `\"}\n`
	}
	_, session = s.finished(t, `{"agent_name":"report-reader","parameters":{"audience":"board","prompt":"@say I ask `+
		`three others about the report, and go on when they have answered.\n@tool list {\"path\":\"/srv/reports\"} => `+
		`[\"q1.md\",\"q2.md\",\"q3.md\"]\n`+
		ask("analyst", `@sleep 900ms\\n@say The costs rose by 4 %.`)+
		ask("fact-checker",
			`@sleep 400ms\\n@fail source_unreachable The source that this child was to read does not answer`)+
		ask("translator", `@say Fertig.\\n@sleep 1300ms`)+
		`@json {\"title\":\"Costs rose\",\"severity\":\"low\",\"changes\":[\"costs\",\"table 4\"]}"}}`)
	eventually(t, "the parent was called back for its children", func() bool {
		return strings.Count(s.call(t, "GET", "/runs?status=completed,failed&session_id="+session, "", 200),
			`"run_id"`) > 1 &&
			strings.Contains(s.call(t, "GET", "/runs?status=pending,claimed,running&session_id="+session, "", 200),
				`"runs":[]`)
	})
	s.finished(t, `{"type":"resume_session","session_id":"`+session+`","prompt":"@say ## What matters\n\nThe report `+
		`is **sound**, but one source was missing:\n\n| chapter | change |\n|---|---|\n| 3 | costs rose by 4 % |\n| 7 `+
		`| a new table |\n\n1. Decide on the budget.\n2. Ask for the source again.\n\n`+"```"+
		`json\n{\"ready\": true}\n`+"```"+
		`\n@json {\"title\":\"What matters\",\"severity\":\"medium\",\"changes\":[]}"}`)
	return session
}
