package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"ao/coordinator/budget"

	"github.com/gin-gonic/gin"
)

// TestARequestWithoutABodyCostsLittle: what the door keeps with it is one piece, beside the request that carries it.
func TestARequestWithoutABodyCostsLittle(t *testing.T) {
	m := budget.NewMemory(0, 1<<20)
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
	g := &gin.Context{}
	if got := testing.AllocsPerRun(100, func() {
		g.Request = r
		x := newExchange(g)
		x.setMemory(m)
		if exchangeOf(g) != x || budget.Read(g.Request.Context(), budget.Small) != nil {
			t.Error("the request does not know what is its")
		}
		x.close()
	}); got > 2 {
		t.Errorf("%.0f allocations", got)
	}
}
