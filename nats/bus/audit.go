package bus

import (
	"context"
	"errors"
	"time"

	"ao/nats/subject"
	"ao/shared/fault"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The audit log's age and size limits.
const (
	auditMaxAge   = 30 * 24 * time.Hour
	auditMaxBytes = 64 << 20
)

// AppendAudit writes a message to AUDIT. A second write with the same id within two minutes is ignored.
func (b *Log) AppendAudit(ctx context.Context, id string, body []byte) error {
	m := &nats.Msg{Subject: subject.AuditEntries, Data: body, Header: nats.Header{"Nats-Msg-Id": {id}}}
	r, err := b.write(ctx, m, requestTimeout, subject.Audit)
	if err == nil {
		_, err = checkPubAck(r)
	}
	return err
}

// AuditEntries returns at most limit messages of AUDIT with sequences greater than after, in order.
func (b *Reader) AuditEntries(ctx context.Context, after uint64, limit int) ([]Message, error) {
	return b.read(ctx, subject.Audit, subject.AllAudit, after, limit)
}

// AuditState returns the state of AUDIT, from its leader. The error is NotFound if the stream does not exist.
func (b *Reader) AuditState(ctx context.Context) (State, error) {
	s, err := b.StreamState(ctx, subject.Audit)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return s, fault.New(fault.NotFound, "",
			"NATS has no stream AUDIT: there was no space for it when this coordinator "+
				"started. Make space, then restart the coordinator")
	}
	return s, err
}
