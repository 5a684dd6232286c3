package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/hours"
	"paceline.internal/platform/letters"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/postgres"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
)

// Outbound is messagingv1.OutboundServiceServer. Its callers are operators, each bounded to their organisation.
type Outbound struct {
	messagingv1.UnimplementedOutboundServiceServer

	Intake *outbound.Intake
	Store  *postgres.Outbound
	Sender send.Sender
}

// EnqueueText implements messagingv1.OutboundServiceServer.
func (o *Outbound) EnqueueText(ctx context.Context, r *messagingv1.EnqueueTextRequest) (*messagingv1.EnqueueTextResponse, error) {
	view, err := viewOf(ctx, o.Sender)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	request, err := readEnqueue(view, r)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	stored, duplicate, err := o.Intake.Enqueue(ctx, request)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return &messagingv1.EnqueueTextResponse{Text: writeQueued(ctx, stored), Duplicate: duplicate}, nil
}

// GetQueuedText implements messagingv1.OutboundServiceServer.
func (o *Outbound) GetQueuedText(ctx context.Context, r *messagingv1.GetQueuedTextRequest) (*messagingv1.GetQueuedTextResponse, error) {
	t, err := o.one(ctx, r.GetTextId(), o.Store.Queued)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return &messagingv1.GetQueuedTextResponse{Text: t}, nil
}

// CancelQueuedText implements messagingv1.OutboundServiceServer.
func (o *Outbound) CancelQueuedText(
	ctx context.Context, r *messagingv1.CancelQueuedTextRequest,
) (*messagingv1.CancelQueuedTextResponse, error) {
	t, err := o.one(ctx, r.GetTextId(), o.Intake.Cancel)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return &messagingv1.CancelQueuedTextResponse{Text: t}, nil
}

// one does something with one message of the caller's organisation.
func (o *Outbound) one(
	ctx context.Context, textID string, do func(ctx context.Context, orgID, id uuid.UUID) (outbound.Queued, error),
) (*messagingv1.QueuedText, error) {
	view, err := viewOf(ctx, o.Sender)
	if err != nil {
		return nil, err
	}
	id, err := readID("text_id", textID)
	if err != nil {
		return nil, err
	}
	m, err := do(ctx, view.orgID, id)
	if err != nil {
		return nil, err
	}
	return writeQueued(ctx, m), nil
}

// ListQueuedTexts implements messagingv1.OutboundServiceServer.
func (o *Outbound) ListQueuedTexts(
	ctx context.Context, r *messagingv1.ListQueuedTextsRequest,
) (*messagingv1.ListQueuedTextsResponse, error) {
	view, err := viewOf(ctx, o.Sender)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	query, err := readQueuedQuery(view, r)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	size := query.Limit
	query.Limit++ // one more, to know whether there is a page after this one
	found, err := o.Store.List(ctx, query)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	page := &messagingv1.ListQueuedTextsResponse{}
	if len(found) > size {
		found = found[:size]
		page.NextPageToken = writePlace(r, found[size-1].ID)
	}
	for _, m := range found {
		page.Texts = append(page.Texts, writeQueued(ctx, m))
	}
	return page, nil
}

func readEnqueue(v view, r *messagingv1.EnqueueTextRequest) (outbound.Request, error) {
	profileID, err := readOptionalID("profile_id", r.GetProfileId())
	if err != nil {
		return outbound.Request{}, err
	}
	to, err := sms.ParsePhone(r.GetTo())
	if err != nil {
		return outbound.Request{}, fmt.Errorf("to: %w", err)
	}
	body, err := sms.NewBody(letters.Compose(r.GetBody()))
	if err != nil {
		return outbound.Request{}, fmt.Errorf("body: %w", err)
	}
	sendAt, err := readOptionalTime("send_at", r.GetSendAt())
	if err != nil {
		return outbound.Request{}, err
	}
	expiresAt, err := readOptionalTime("expires_at", r.GetExpiresAt())
	if err != nil {
		return outbound.Request{}, err
	}
	open, err := readHours(r.GetOpenHours())
	if err != nil {
		return outbound.Request{}, err
	}
	policy, err := readPolicy(r.GetUnknownPolicy())
	return outbound.Request{
		OrgID: v.orgID, ProfileID: profileID, Key: r.GetIdempotencyKey(), To: to, Body: body, Purpose: outbound.Purpose(r.GetPurpose()),
		SendAt: sendAt, ExpiresAt: expiresAt, UnknownPolicy: policy, Hours: open,
		ConsentRequired: r.GetRequiresConsentRecord(),
	}, err
}

// readHours are zero for hours that are absent.
func readHours(open *messagingv1.OpenHours) (hours.Quiet, error) {
	if open == nil {
		return hours.Quiet{}, nil
	}
	window, err := hours.ParseWindow(open.GetOpen() + "-" + open.GetClose())
	if err != nil {
		return hours.Quiet{}, invalid("open_hours", err.Error())
	}
	zone, known := hours.Stored(open.GetTimeZone())
	if !known {
		return hours.Quiet{}, invalid("open_hours.time_zone", "is not known")
	}
	return hours.Quiet{Window: window, Zone: zone}, nil
}

// readOptionalTime is zero for a time that is absent.
func readOptionalTime(field string, at *timestamppb.Timestamp) (time.Time, error) {
	if at == nil {
		return time.Time{}, nil
	}
	read, err := readTime(field, at)
	if err == nil && (read.Year() < 2000 || read.Year() > 2200) { // a zero value, or a number of milliseconds
		err = invalid(field, "must be a time of the years 2000 to 2200, such as 2026-11-20T12:00:00Z")
	}
	return read, err
}

func readQueuedQuery(v view, r *messagingv1.ListQueuedTextsRequest) (outbound.Query, error) {
	profileID, err := readOptionalID("profile_id", r.GetProfileId())
	if err != nil {
		return outbound.Query{}, err
	}
	q := outbound.Query{
		OrgID: v.orgID, ProfileID: profileID, Status: outbound.Status(r.GetStatus()), Purpose: outbound.Purpose(r.GetPurpose()),
		Key: r.GetIdempotencyKey(), Limit: int(r.GetPageSize()),
	}
	switch {
	case q.Limit == 0:
		q.Limit = defaultPage
	case q.Limit < 0 || q.Limit > largestPage:
		return outbound.Query{}, invalid("page_size", fmt.Sprintf("must be 1 to %d", largestPage))
	}
	if q.Status != "" && !slices.Contains(outbound.Statuses(), q.Status) {
		return outbound.Query{}, invalid("status", fmt.Sprintf("must be one of %v", outbound.Statuses()))
	}
	if q.Purpose != "" && !slices.Contains(outbound.Purposes(), q.Purpose) {
		return outbound.Query{}, invalid("purpose", fmt.Sprintf("must be one of %v", outbound.Purposes()))
	}
	if strings.ContainsRune(q.Key, 0) {
		return outbound.Query{}, invalid("idempotency_key", "holds a character that no key has")
	}
	q.Before, err = readPlace(r)
	return q, err
}

func writeQueued(ctx context.Context, m outbound.Queued) *messagingv1.QueuedText {
	written := &messagingv1.QueuedText{
		TextId: m.ID.String(), IdempotencyKey: m.Key, ProfileId: writeID(m.ProfileID), To: m.To.String(), Body: string(m.Body),
		Purpose: string(m.Purpose), Status: string(m.Status), SendAt: timestamppb.New(m.SendAt), ExpiresAt: timestamppb.New(m.ExpiresAt),
		NextAttemptAt: writeTime(m.NextAt), Attempts: int32Of(m.Attempts), Failure: string(m.Failure), Explanation: m.Explanation,
		MessageId: writeID(m.MessageID), MessageStatus: string(m.MessageStatus), CreatedAt: timestamppb.New(m.CreatedAt),
		EndedAt: writeTime(m.EndedAt),
	}
	writePrice(written, string(m.Body))
	if m.ErrorCode != 0 {
		code := int32Of(m.ErrorCode)
		written.ErrorCode = &code
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
	t.Segments, t.Encoding = int32Of(cut.Count), string(cut.Encoding)
	for _, r := range letters.Dearer(body) {
		dearer := &messagingv1.DearerCharacter{Character: string(r), CodePoint: fmt.Sprintf("%U", r)}
		if same, found := letters.Instead(r); found {
			dearer.Instead = &same
		}
		t.DearerCharacters = append(t.DearerCharacters, dearer)
	}
}
