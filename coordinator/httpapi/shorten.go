package httpapi

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ao/shared/run"
	"ao/shared/strictjson"

	"github.com/gin-gonic/gin"
)

// sizeParams are the parameters of what may be large.
var sizeParams = []string{"max_bytes", "download"}

// structure is how many bytes a document that was cut may have beside its strings, for each byte that was asked for,
// and at least.
const (
	structure      = 2
	structureLeast = 1024
)

// shortDoc is what openapi.json says of a document that may have been cut.
type shortDoc struct {
	Truncated bool   `json:"truncated,omitempty"`
	Bytes     int    `json:"bytes,omitempty"`
	Head      string `json:"head,omitempty"`
}

// shortResult is a result document that may have been cut.
type shortResult struct {
	run.Result
	shortDoc
}

// large reads how much of what may be large is wanted.
func large(q *query) (most int, download bool) {
	return q.number("max_bytes", 0, 1, 1<<30), q.flag("download")
}

// shortened answers with a document that may be large, as far as it is wanted.
func shortened(q *query, name string, read func() (any, error)) (any, error) {
	most, file := large(q)
	if q.err != nil {
		return nil, q.err
	}
	doc, err := read()
	if err != nil {
		return nil, err
	}
	doc, err = shorten(doc, most)
	if err == nil && file {
		return download{name, doc}, nil
	}
	return doc, err
}

// shorten gives a document of about so many bytes at most, 0: all of it. One that was cut says so, and how many bytes
// it has.
func shorten(doc any, most int) (any, error) {
	if most == 0 {
		return doc, nil
	}
	var b bytes.Buffer
	if err := encode(&b, doc); err != nil {
		return nil, err
	}
	raw := bytes.TrimSpace(b.Bytes())
	if len(raw) <= most {
		return json.RawMessage(bytes.Clone(raw)), nil
	}
	members, err := strictjson.Members(strictjson.Truncate(raw, most))
	if err != nil {
		return nil, err
	}
	head := ""
	if size := len(strictjson.Object(members)); size > structure*most+structureLeast {
		head = dropLarge(members, most)
	}
	return truncatedDoc(members, len(raw), head)
}

// dropLarge takes out the members that are too large to be shown even without their texts: they are null. The first of
// them begins in head.
func dropLarge(members []strictjson.Member, most int) (head string) {
	for i, m := range members {
		if len(m.Value) <= structureLeast {
			continue
		}
		if head == "" {
			head = strings.ToValidUTF8(string(m.Value[:min(len(m.Value), most)]), "")
		}
		members[i].Value = []byte("null")
	}
	return head
}

// truncatedDoc is a document that says that it was cut, and from how many bytes.
func truncatedDoc(members []strictjson.Member, size int, head string) (any, error) {
	say, err := json.Marshal(shortDoc{true, size, head})
	if err != nil {
		return nil, err
	}
	own, err := strictjson.Members(say)
	if err != nil {
		return nil, err
	}
	members = slices.DeleteFunc(members, func(m strictjson.Member) bool {
		return slices.ContainsFunc(own, func(o strictjson.Member) bool { return o.Key == m.Key })
	})
	return json.RawMessage(strictjson.Object(append(members, own...))), nil
}

// download is a document that is answered as a file.
type download struct {
	name string // of ids and words of ours alone
	body any
}

// file answers with a file.
func (a *answers) file(g *gin.Context, d download) {
	var b bytes.Buffer
	if err := encode(&b, d.body); err != nil {
		a.refuse(g, err)
		return
	}
	h := g.Writer.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": d.name}))
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	g.Writer.WriteHeader(http.StatusOK)
	if err := send(g.Writer, b.Bytes()); err != nil {
		a.log.Debug("answer not taken", "request", requestID(g), "err", err)
	}
}
