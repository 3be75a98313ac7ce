package httpapi

import (
	"strings"

	"ao/shared/fault"

	"github.com/gin-gonic/gin"
)

// preconditions returns what If-Match and If-None-Match allow (RFC 9110, section 13.2.2). The tag is empty where the
// thing does not exist. Weak tags count for If-None-Match only. nil: the headers are missing.
func preconditions(g *gin.Context) (func(tag string) bool, error) {
	match, err := readTags(g, "If-Match", false)
	if err != nil {
		return nil, err
	}
	none, err := readTags(g, "If-None-Match", true)
	if match == nil && none == nil {
		return nil, err
	}
	return func(tag string) bool {
		return (tag == "" || none == nil || !none(tag)) && (match == nil || tag != "" && match(tag))
	}, err
}

// unchanged reports whether If-None-Match names this tag. Weak tags count.
func unchanged(g *gin.Context, tag string) (bool, error) {
	names, err := readTags(g, "If-None-Match", true)
	return names != nil && names(tag), err
}

// readTags returns whether a header of entity tags names a tag, or is *; nil: it is missing.
func readTags(g *gin.Context, header string, weakToo bool) (names func(tag string) bool, err error) {
	values := g.Request.Header.Values(header)
	if len(values) == 0 {
		return nil, nil
	}
	tags, any := map[string]bool{}, false
	for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
		one = strings.TrimSpace(one)
		bare, weak := strings.CutPrefix(one, "W/")
		switch {
		case one == "*":
			any = true
		case len(bare) < 2 || bare[0] != '"' || bare[len(bare)-1] != '"':
			return nil, fault.Newf(fault.Invalid, "%s %.80q: use an ETag with its quotes, or *", header,
				one).With("field", header)
		case !weak || weakToo:
			tags[bare[1:len(bare)-1]] = true
		}
	}
	return func(tag string) bool { return any || tags[tag] }, nil
}
