package httpapi

import (
	"strings"

	"ao/shared/fault"

	"github.com/gin-gonic/gin"
)

// ifMatch returns what If-Match allows; nil: the header is missing. Weak tags match nothing.
func ifMatch(g *gin.Context) (func(tag string) bool, error) {
	values := g.Request.Header.Values("If-Match")
	if len(values) == 0 {
		return nil, nil
	}
	tags, any, err := readTags("If-Match", strings.Join(values, ","), false)
	return func(tag string) bool { return any || tags[tag] }, err
}

// preconditions returns what If-Match and If-None-Match allow. The tag is empty where the thing does not exist. nil:
// the headers are missing.
func preconditions(g *gin.Context) (func(tag string) bool, error) {
	match, err := ifMatch(g)
	if err != nil {
		return nil, err
	}
	values := g.Request.Header.Values("If-None-Match")
	if len(values) == 0 {
		if match == nil {
			return nil, nil
		}
		return func(tag string) bool { return tag != "" && match(tag) }, nil
	}
	tags, any, err := readTags("If-None-Match", strings.Join(values, ","), false)
	return func(tag string) bool {
		return (tag == "" || !any && !tags[tag]) && (match == nil || tag != "" && match(tag))
	}, err
}

// unchanged reports whether If-None-Match names this tag. Weak tags count.
func unchanged(g *gin.Context, tag string) (bool, error) {
	values := g.Request.Header.Values("If-None-Match")
	if len(values) == 0 {
		return false, nil
	}
	tags, any, err := readTags("If-None-Match", strings.Join(values, ","), true)
	return any || tags[tag], err
}

// readTags parses a header of entity tags. any: it is *.
func readTags(header, text string, weakToo bool) (tags map[string]bool, any bool, err error) {
	tags = map[string]bool{}
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		bare, weak := strings.CutPrefix(one, "W/")
		switch {
		case one == "*":
			any = true
		case len(bare) < 2 || bare[0] != '"' || bare[len(bare)-1] != '"':
			return nil, false, fault.Newf(fault.Invalid, "%s %.80q: use an ETag with its quotes, or *", header,
				one).With("field", header)
		case !weak || weakToo:
			tags[bare[1:len(bare)-1]] = true
		}
	}
	return tags, any, nil
}
