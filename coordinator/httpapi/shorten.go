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

// sizeParams are the parameters of large documents.
var sizeParams = []string{"max_bytes", "download"}

// Limits of a shortened document's bytes beside its strings, per requested byte and at least.
const (
	structure      = 2
	structureLeast = 1024
)

// shortDoc describes a shortened document in openapi.json.
type shortDoc struct {
	Truncated bool   `json:"truncated,omitempty"`
	Bytes     int    `json:"bytes,omitempty"`
	Head      string `json:"head,omitempty"`
}

// shortResult describes a shortened result in openapi.json.
type shortResult struct {
	run.Result
	shortDoc
}

// large reads how much of a document is wanted.
func large(q *params) (most int, download bool) {
	return q.number("max_bytes", 0, 1, 1<<30), q.flag("download")
}

// shortened answers with a document, shortened or as a file where the caller asks so.
func shortened(q *params, name string, read func() (any, error)) (any, error) {
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

// shorten cuts a document to about most bytes; 0: not at all. A cut document says so, with its full size.
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

// dropLarge sets members to null that are too large even without their strings. head is the beginning of the first one.
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

// truncatedDoc returns a document that says that it was cut, and its full size.
func truncatedDoc(members []strictjson.Member, size int, head string) (any, error) {
	say, err := strictjson.Encode(shortDoc{true, size, head})
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
	name string // made of ids and our own words
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
