package bus_test

import (
	"strconv"
	"sync"
	"testing"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"

	"github.com/nats-io/nats.go"
)

// A caller that lists while the server hangs may list again: the list was not refused.
func TestListFromAHangingServer(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	b := p.Bus(t)
	keys := b.Bucket(subject.Runners)
	for n := range 100 { // more than comes at once
		if _, err := keys.Put(t.Context(), "k"+strconv.Itoa(n), make([]byte, 256<<10)); err != nil {
			t.Fatal(err)
		}
	}
	nc := p.Conn(t)
	hang := sync.OnceFunc(p.Pause) // a pull that is asked again later must not stop it again
	sub, err := nc.Subscribe("$JS.API.CONSUMER.MSG.NEXT.KV_"+subject.Runners+".>", func(*nats.Msg) { hang() })
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	all, err := keys.List(t.Context())
	p.Resume()
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("it hung: %d keys, %v; want Unavailable", len(all), err)
	}
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "all is listed", func() bool {
		all, err := keys.List(t.Context())
		return err == nil && len(all) == 100
	})
}
