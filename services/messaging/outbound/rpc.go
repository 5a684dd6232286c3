package outbound

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/hours"
	"paceline.internal/platform/letters"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
)

// RPC serves the queue to operators, each bounded to their organisation.
type RPC struct {
	messagingv1.UnimplementedOutboundServiceServer

	Intake *Intake
}

// EnqueueText implements messagingv1.OutboundServiceServer.
func (o *RPC) EnqueueText(ctx context.Context, r *messagingv1.EnqueueTextRequest) (*messagingv1.EnqueueTextResponse, error) {
	view, err := edge.ViewOf(ctx, o.Intake.Senders.Environment.OrgID)
	if err != nil {
		return nil, err
	}
	request, err := readEnqueue(view, r)
	if err != nil {
		return nil, err
	}
	stored, duplicate, err := o.Intake.Enqueue(ctx, request)
	if err != nil {
		return nil, err
	}
	return &messagingv1.EnqueueTextResponse{Text: writeQueued(ctx, stored), Duplicate: duplicate}, nil
}

// GetQueuedText implements messagingv1.OutboundServiceServer.
func (o *RPC) GetQueuedText(ctx context.Context, r *messagingv1.GetQueuedTextRequest) (*messagingv1.GetQueuedTextResponse, error) {
	t, err := o.one(ctx, r.GetTextId(), o.Intake.Store.Queued)
	return &messagingv1.GetQueuedTextResponse{Text: t}, err
}

// CancelQueuedText implements messagingv1.OutboundServiceServer.
func (o *RPC) CancelQueuedText(
	ctx context.Context, r *messagingv1.CancelQueuedTextRequest,
) (*messagingv1.CancelQueuedTextResponse, error) {
	t, err := o.one(ctx, r.GetTextId(), o.Intake.Cancel)
	return &messagingv1.CancelQueuedTextResponse{Text: t}, err
}

// one does something with one message of the caller's organisation.
func (o *RPC) one(
	ctx context.Context, textID string, do func(ctx context.Context, orgID, id uuid.UUID) (Queued, error),
) (*messagingv1.QueuedText, error) {
	view, err := edge.ViewOf(ctx, o.Intake.Senders.Environment.OrgID)
	if err != nil {
		return nil, err
	}
	id, err := edge.ReadID("text_id", textID)
	if err != nil {
		return nil, err
	}
	m, err := do(ctx, view.OrgID, id)
	if err != nil {
		return nil, err
	}
	return writeQueued(ctx, m), nil
}

// ListQueuedTexts implements messagingv1.OutboundServiceServer.
func (o *RPC) ListQueuedTexts(
	ctx context.Context, r *messagingv1.ListQueuedTextsRequest,
) (*messagingv1.ListQueuedTextsResponse, error) {
	view, err := edge.ViewOf(ctx, o.Intake.Senders.Environment.OrgID)
	if err != nil {
		return nil, err
	}
	query, err := readQueuedQuery(view, r)
	if err != nil {
		return nil, err
	}
	size := query.Limit
	query.Limit++ // one more, to know whether there is a page after this one
	found, err := o.Intake.Store.List(ctx, query)
	if err != nil {
		return nil, err
	}
	page := &messagingv1.ListQueuedTextsResponse{}
	if len(found) > size {
		found = found[:size]
		page.NextPageToken = edge.WritePlace(r, found[size-1].ID)
	}
	for _, m := range found {
		page.Texts = append(page.Texts, writeQueued(ctx, m))
	}
	return page, nil
}

func readEnqueue(v edge.View, r *messagingv1.EnqueueTextRequest) (Request, error) {
	profileID, err := edge.ReadOptionalID("profile_id", r.GetProfileId())
	if err != nil {
		return Request{}, err
	}
	to, err := sms.ParsePhone(r.GetTo())
	if err != nil {
		return Request{}, fmt.Errorf("to: %w", err)
	}
	body, err := sms.NewBody(letters.Compose(r.GetBody()))
	if err != nil {
		return Request{}, fmt.Errorf("body: %w", err)
	}
	sendAt, err := readOptionalTime("send_at", r.GetSendAt())
	if err != nil {
		return Request{}, err
	}
	expiresAt, err := readOptionalTime("expires_at", r.GetExpiresAt())
	if err != nil {
		return Request{}, err
	}
	open, err := readHours(r.GetOpenHours())
	if err != nil {
		return Request{}, err
	}
	policy, err := send.ReadPolicy(r.GetUnknownPolicy())
	return Request{
		OrgID: v.OrgID, ProfileID: profileID, Key: r.GetIdempotencyKey(), To: to, Body: body, Purpose: Purpose(r.GetPurpose()),
		SendAt: sendAt, ExpiresAt: expiresAt, UnknownPolicy: policy, Hours: open,
		ConsentRequired: r.GetRequiresConsentRecord(),
	}, err
}

func readHours(open *messagingv1.OpenHours) (hours.Quiet, error) {
	if open == nil {
		return hours.Quiet{}, nil
	}
	window, err := hours.ParseWindow(open.GetOpen() + "-" + open.GetClose())
	if err != nil {
		return hours.Quiet{}, edge.Invalid("open_hours", err.Error())
	}
	zone, known := hours.Stored(open.GetTimeZone())
	if !known {
		return hours.Quiet{}, edge.Invalid("open_hours.time_zone", "is not known")
	}
	return hours.Quiet{Window: window, Zone: zone}, nil
}

func readOptionalTime(field string, at *timestamppb.Timestamp) (time.Time, error) {
	if at == nil {
		return time.Time{}, nil
	}
	read, err := edge.ReadTime(field, at)
	if err == nil && (read.Year() < 2000 || read.Year() > 2200) { // a zero value, or a number of milliseconds
		err = edge.Invalid(field, "must be a time of the years 2000 to 2200, such as 2026-11-20T12:00:00Z")
	}
	return read, err
}

func readQueuedQuery(v edge.View, r *messagingv1.ListQueuedTextsRequest) (Query, error) {
	profileID, err := edge.ReadOptionalID("profile_id", r.GetProfileId())
	if err != nil {
		return Query{}, err
	}
	q := Query{OrgID: v.OrgID, ProfileID: profileID, Status: Status(r.GetStatus()), Purpose: Purpose(r.GetPurpose())}
	if q.Limit, q.Before, err = edge.ReadPage(r, r.GetPageSize()); err != nil {
		return Query{}, err
	}
	if q.Status != "" && !slices.Contains(Statuses(), q.Status) {
		return Query{}, edge.Invalid("status", fmt.Sprintf("must be one of %v", Statuses()))
	}
	if q.Purpose != "" && !slices.Contains(Purposes(), q.Purpose) {
		return Query{}, edge.Invalid("purpose", fmt.Sprintf("must be one of %v", Purposes()))
	}
	q.Key, err = edge.ReadKey(r.GetIdempotencyKey())
	return q, err
}

func writeQueued(ctx context.Context, m Queued) *messagingv1.QueuedText {
	written := &messagingv1.QueuedText{
		TextId: m.ID.String(), IdempotencyKey: m.Key, ProfileId: edge.WriteID(m.ProfileID), To: m.To.String(), Body: string(m.Body),
		Purpose: string(m.Purpose), Status: string(m.Status), SendAt: timestamppb.New(m.SendAt), ExpiresAt: timestamppb.New(m.ExpiresAt),
		NextAttemptAt: edge.WriteTime(m.NextAt), Attempts: edge.Int32(m.Attempts), Failure: string(m.Failure), Explanation: m.Explanation,
		MessageId: edge.WriteID(m.MessageID), MessageStatus: string(m.MessageStatus), CreatedAt: timestamppb.New(m.CreatedAt),
		EndedAt: edge.WriteTime(m.EndedAt),
	}
	writePrice(written, string(m.Body))
	if m.ErrorCode != 0 {
		written.ErrorCode = new(edge.Int32(m.ErrorCode))
	}
	if caller, _ := rpc.PrincipalFrom(ctx); caller.Role == rpc.RoleOperator { // where they call from is not for others
		written.Actor = audit.Read(m.Actor)
	}
	return written
}

// writePrice says in how many segments a text is billed, and which of its characters make it dearer. The words of a code are not kept.
func writePrice(t *messagingv1.QueuedText, body string) {
	if body == "" {
		return
	}
	cut := sms.Segments(body)
	t.Segments, t.Encoding = edge.Int32(cut.Count), string(cut.Encoding)
	for _, r := range letters.Dearer(body) {
		dearer := &messagingv1.DearerCharacter{Character: string(r), CodePoint: fmt.Sprintf("%U", r)}
		if same, found := letters.Instead(r); found {
			dearer.Instead = &same
		}
		t.DearerCharacters = append(t.DearerCharacters, dearer)
	}
}

// QueueGauges writes the state of the queue, with counts of upTo at most.
func (o *RPC) QueueGauges(ctx context.Context, now time.Time, upTo int) (*overviewv1.QueueGauges, error) {
	gauges, err := o.Intake.Store.Jobs().GaugesUpTo(ctx, now, upTo+1)
	if err != nil {
		edge.Mark(&err)
		return nil, err
	}
	written := &overviewv1.QueueGauges{
		Queue: table, Running: edge.Count(gauges.Running, upTo), Due: edge.Count(gauges.Backlog, upTo),
		Scheduled: edge.Count(gauges.Scheduled, upTo), Failed: edge.Count(gauges.Failed, upTo),
	}
	if gauges.OldestDueSeconds > 0 {
		written.OldestDueAt = timestamppb.New(now.Add(-time.Duration(gauges.OldestDueSeconds * float64(time.Second))))
	}
	return written, nil
}

// GetUnfinished finds what is not at its end of a person.
func (o *RPC) GetUnfinished(ctx context.Context, r *messagingv1.GetUnfinishedRequest) (*messagingv1.GetUnfinishedResponse, error) {
	orgID, err := edge.ReadID("org_id", r.GetOrgId())
	if err != nil {
		return nil, err
	}
	profileID, err := edge.ReadID("profile_id", r.GetProfileId())
	if err != nil {
		return nil, err
	}
	phone, err := edge.ReadProfilePhone("phone", r.GetPhone())
	if err != nil {
		return nil, err
	}
	found, err := o.Intake.Store.Unfinished(ctx, orgID, profileID, phone.String())
	return &messagingv1.GetUnfinishedResponse{MessageId: found.MessageID, MessageStatus: found.Status, TextId: found.TextID}, err
}
