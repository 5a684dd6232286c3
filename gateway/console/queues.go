package console

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
)

// queueRow is a job of any queue.
type queueRow struct {
	ID, What, Status, Why string
	Profile               string
	Attempts, Most        int32 // Most is 0 where a queue has no limit
	Created, Due, Ended   time.Time
	Open                  string
	Deeds                 []deed
}

// queueLister lists a page of a queue.
type queueLister func(ctx context.Context, status, pageToken string) (rows []queueRow, next string, err error)

// queuesPage is the data of pages/queues.html.
type queuesPage struct {
	Names         []string
	Gauges        map[string]*overviewv1.QueueGauges
	Queue, Status string
	Statuses      []string
	Rows          []queueRow
	Next          string // the address of the next page; empty on the last
}

// Doable reports whether anything can be done to any row.
func (p queuesPage) Doable() bool {
	return slices.ContainsFunc(p.Rows, func(r queueRow) bool { return len(r.Deeds) > 0 })
}

const queueShown = 50

// queueNames are the queues by the names that the overviews have, in the order of the page.
func queueNames() []string {
	return []string{"webhook_jobs", "sms_outbound_jobs", "engagement_outreach", "event_deliveries"}
}

func queueStatuses() []string {
	return []string{"pending", "processing", "completed", "failed", "cancelled"}
}

// queues shows how the queues stand, and the jobs of one of them.
func (c *Console) queues(r *http.Request) (page, error) {
	list := map[string]queueLister{
		"webhook_jobs": c.webhookJobs, "sms_outbound_jobs": c.queuedTexts, "engagement_outreach": c.outreach, "event_deliveries": c.deliveries,
	}
	shown := r.Form.Get("queue")
	if list[shown] == nil {
		shown = queueNames()[0]
	}
	var rows []queueRow
	var next string
	var ours *onboardingv1.GetOverviewResponse
	var theirs *messagingv1.GetMessagingOverviewResponse
	group, ctx := errgroup.WithContext(r.Context())
	group.Go(func() (err error) {
		rows, next, err = list[shown](ctx, r.Form.Get("status"), r.Form.Get("page"))
		return err
	})
	group.Go(func() (err error) {
		ours, err = c.services.Onboarding.GetOverview(ctx, &onboardingv1.GetOverviewRequest{})
		return err
	})
	group.Go(func() (err error) {
		theirs, err = c.services.Messaging.GetMessagingOverview(ctx, &messagingv1.GetMessagingOverviewRequest{})
		return err
	})
	if err := group.Wait(); err != nil {
		return page{}, err
	}
	gauges := map[string]*overviewv1.QueueGauges{}
	for _, g := range append(ours.GetQueues(), theirs.GetQueues()...) {
		gauges[g.GetQueue()] = g
	}
	return page{Title: "queues.title", Name: "queues", Topic: topicAll, Body: queuesPage{
		Names: queueNames(), Gauges: gauges, Queue: shown, Status: r.Form.Get("status"), Statuses: queueStatuses(), Rows: rows,
		Next: nextPage(r, next),
	}}, nil
}

// nextPage is the address of the same list's next page; empty when there is none.
func nextPage(r *http.Request, token string) string {
	if token == "" {
		return ""
	}
	query := r.URL.Query()
	query.Set("page", token)
	return r.URL.Path + "?" + query.Encode()
}

// when is a time of a message, zero when it has none.
func when(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

func (c *Console) webhookJobs(ctx context.Context, status, pageToken string) (rows []queueRow, next string, err error) {
	out, err := c.services.Jobs.ListWebhookJobs(ctx, &onboardingv1.ListWebhookJobsRequest{
		Status: status, PageSize: queueShown, PageToken: pageToken,
	})
	for _, j := range out.GetJobs() {
		rows = append(rows, webhookJobRow(j))
	}
	return rows, out.GetNextPageToken(), err
}

func webhookJobRow(j *onboardingv1.WebhookJob) queueRow {
	row := queueRow{
		ID: j.GetJobId(), What: j.GetSource() + " " + j.GetEventType(), Status: j.GetStatus(), Why: j.GetErrorMessage(),
		Attempts: j.GetAttempts(), Most: j.GetMaxAttempts(), Created: when(j.GetCreatedAt()), Due: when(j.GetDueAt()),
		Ended: when(j.GetProcessedAt()),
		Open:  root + "/queues/jobs/" + j.GetJobId(),
	}
	if j.GetStatus() == "failed" {
		row.Deeds = append(row.Deeds, deed{Verb: "retry-job", ID: row.ID})
	}
	if j.GetStatus() == "failed" || j.GetStatus() == "pending" {
		row.Deeds = append(row.Deeds, deed{Verb: "cancel-job", ID: row.ID})
	}
	return row
}

func (c *Console) queuedTexts(ctx context.Context, status, pageToken string) (rows []queueRow, next string, err error) {
	out, err := c.services.Outbound.ListQueuedTexts(ctx, &messagingv1.ListQueuedTextsRequest{
		Status: status, PageSize: queueShown, PageToken: pageToken,
	})
	for _, t := range out.GetTexts() {
		row := queueRow{
			ID: t.GetTextId(), What: t.GetPurpose(), Status: t.GetStatus(), Why: t.GetExplanation(), Profile: t.GetProfileId(),
			Attempts: t.GetAttempts(), Created: when(t.GetCreatedAt()), Due: when(t.GetNextAttemptAt()), Ended: when(t.GetEndedAt()),
		}
		if t.GetStatus() == "pending" {
			row.Deeds = []deed{{Verb: "cancel-text", ID: row.ID}}
		}
		rows = append(rows, row)
	}
	return rows, out.GetNextPageToken(), err
}

func (c *Console) outreach(ctx context.Context, status, pageToken string) (rows []queueRow, next string, err error) {
	out, err := c.services.Engagement.ListOutreach(ctx, &onboardingv1.ListOutreachRequest{
		Status: status, PageSize: queueShown, PageToken: pageToken,
	})
	for _, o := range out.GetOutreach() {
		row := queueRow{
			ID: o.GetOutreachId(), What: o.GetType(), Status: o.GetStatus(), Why: o.GetError(), Profile: o.GetProfileId(), Attempts: o.GetAttempts(),
			Created: when(o.GetCreatedAt()), Due: when(o.GetScheduledFor()), Ended: when(o.GetSentAt()),
		}
		if o.GetStatus() == "failed" {
			row.Deeds = append(row.Deeds, deed{Verb: "retry-outreach", ID: row.ID})
		}
		if o.GetStatus() == "failed" || o.GetStatus() == "pending" {
			row.Deeds = append(row.Deeds, deed{Verb: "cancel-outreach", ID: row.ID})
		}
		rows = append(rows, row)
	}
	return rows, out.GetNextPageToken(), err
}

func (c *Console) deliveries(ctx context.Context, status, pageToken string) (rows []queueRow, next string, err error) {
	if status == "cancelled" { // a delivery never is
		status = ""
	}
	out, err := c.services.Events.ListEventDeliveries(ctx, &onboardingv1.ListEventDeliveriesRequest{
		Status: status, PageSize: queueShown, PageToken: pageToken,
	})
	for _, d := range out.GetDeliveries() {
		row := queueRow{
			ID: d.GetDeliveryId(), What: d.GetType(), Status: d.GetStatus(), Why: d.GetErrorMessage(), Attempts: d.GetAttempts(),
			Most: d.GetMaxAttempts(), Created: when(d.GetCreatedAt()), Due: when(d.GetNextAttemptAt()), Ended: when(d.GetProcessedAt()),
		}
		if d.GetStatus() == "failed" {
			row.Deeds = []deed{{Verb: "replay-delivery", ID: row.ID}}
		}
		rows = append(rows, row)
	}
	return rows, out.GetNextPageToken(), err
}

// jobPage is the data of pages/job.html.
type jobPage struct {
	Job     *onboardingv1.WebhookJob
	Row     queueRow
	Payload string
}

// job is one webhook job with its payload. Lists have no payloads; to read one is another call, which the audit log records.
func (c *Console) job(r *http.Request) (page, error) {
	out, err := c.services.Jobs.GetWebhookJob(r.Context(), &onboardingv1.GetWebhookJobRequest{JobId: r.PathValue("id")})
	if err != nil {
		return page{}, err
	}
	payload, err := json.MarshalIndent(out.GetJob().GetPayload().AsMap(), "", "  ") // protojson varies its spaces on purpose
	if err != nil {
		return page{}, err
	}
	return page{Title: "job.title", Name: "job", Body: jobPage{out.GetJob(), webhookJobRow(out.GetJob()), string(payload)}}, nil
}
