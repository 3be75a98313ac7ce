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

// How long the audit is kept, and how much of it.
const (
	auditMaxAge   = 30 * 24 * time.Hour
	auditMaxBytes = 64 << 20
)

// AppendAudit writes a message to AUDIT. One that is written again under the same id, within two minutes, is there once.
func (b *Log) AppendAudit(ctx context.Context, id string, body []byte) error {
	r, err := b.write(ctx, &nats.Msg{Subject: subject.AuditEntries, Data: body, Header: nats.Header{"Nats-Msg-Id": {id}}}, patience, subject.Audit)
	if err == nil {
		_, err = verdict(r)
	}
	return err
}

// AuditEntries gives at most limit messages of AUDIT with sequences greater than after, in order.
func (b *Reader) AuditEntries(ctx context.Context, after uint64, limit int) ([]Message, error) {
	return b.read(ctx, subject.Audit, subject.AllAudit, after, limit)
}

// AuditState gives the state of AUDIT, from its leader. The error is NotFound where there is no such stream.
func (b *Reader) AuditState(ctx context.Context) (State, error) {
	s, err := b.StreamState(ctx, subject.Audit)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return s, fault.New(fault.NotFound, "", "There is no stream AUDIT in NATS: there was no room for it when this coordinator started. Make room, then restart the coordinator")
	}
	return s, err
}
