package console

import (
	"context"
	"encoding/csv"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// ledgerPage is the data of pages/ledger.html.
type ledgerPage struct {
	Phone   string
	Ledger  *messagingv1.GetConsentResponse // nil before a phone is asked for
	Problem string                          // what is wrong with the phone, in the service's words; empty for nothing
	None    bool                            // nothing is recorded of the phone
	Whose   *onboardingv1.Profile           // nil where the phone is no person's
	Unread  string                          // why its person is not known
	JSON    string                          // addresses of the exports
	CSV     string
}

const (
	ledgerLines = 500
	// maxLedgerPages bounds a ledger that is read whole: a person who said STOP and START ten thousand times is no person.
	maxLedgerPages = 20
)

// ledger shows the consent of a phone, line by line.
func (c *Console) ledger(r *http.Request) (page, error) {
	phone := strings.TrimSpace(r.Form.Get("phone"))
	shown := ledgerPage{Phone: phone}
	if phone != "" {
		var err error
		shown.Ledger, err = c.wholeLedger(r.Context(), phone)
		switch status.Code(err) {
		case codes.OK:
		case codes.NotFound:
			shown.None = true
		case codes.InvalidArgument, codes.OutOfRange:
			shown.Problem = saidBy(err)
		default:
			return page{}, err
		}
		if shown.Problem == "" {
			if shown.Whose, err = c.withPhone(r.Context(), phone); err != nil {
				shown.Unread = saidBy(err)
			}
		}
		export := root + "/ledger/export?" + url.Values{"phone": {phone}}.Encode()
		shown.JSON, shown.CSV = export+"&as=json", export+"&as=csv"
	}
	return page{Name: "ledger", Title: "ledger.title", Body: shown}, nil
}

func (c *Console) wholeLedger(ctx context.Context, phone string) (*messagingv1.GetConsentResponse, error) {
	in := &messagingv1.GetConsentRequest{Phone: phone, PageSize: ledgerLines}
	whole, err := c.services.Messaging.GetConsent(ctx, in)
	if err != nil {
		return nil, err
	}
	for range maxLedgerPages {
		if in.PageToken = whole.GetNextPageToken(); in.GetPageToken() == "" {
			return whole, nil
		}
		more, err := c.services.Messaging.GetConsent(ctx, in)
		if err != nil {
			return nil, err
		}
		whole.Events, whole.NextPageToken = append(whole.Events, more.GetEvents()...), more.GetNextPageToken()
	}
	return nil, status.Error(codes.OutOfRange, "this ledger is too long to be shown whole; read it with GET /v1/consents")
}

// exportLedger answers with a file: JSON as of /v1, so that its hashes can be computed again, or CSV for a spreadsheet.
func (c *Console) exportLedger(w http.ResponseWriter, r *http.Request) {
	err := c.permitted(r, rpc.RoleOperator, 0)
	var ledger *messagingv1.GetConsentResponse
	if err == nil {
		ledger, err = c.wholeLedger(r.Context(), r.Form.Get("phone"))
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	kind, name, body := "text/csv; charset=utf-8", "consent.csv", ledgerCSV(ledger)
	if r.Form.Get("as") == "json" {
		text, err := protojson.MarshalOptions{UseProtoNames: true, Multiline: true, EmitDefaultValues: true}.Marshal(ledger)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		kind, name, body = "application/json", "consent.json", string(text)
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	_, _ = w.Write([]byte(body)) // or the client has gone
}

// ledgerCSV is the ledger as a spreadsheet reads it.
func ledgerCSV(ledger *messagingv1.GetConsentResponse) string {
	var out strings.Builder
	table := csv.NewWriter(&out)
	rows := [][]string{{
		"seq", "at", "phone", "state", "source", "words", "sender", "message_id", "actor", "keyword_pack", "rules_version", "confirmed_by",
		"confirmation", "confirmation_outcome", "prev_hash", "hash",
	}}
	for _, e := range ledger.GetEvents() {
		row := []string{
			strconv.Itoa(int(e.GetSeq())), e.GetAt().AsTime().Format(time.RFC3339Nano), ledger.GetConsent().GetPhone(), e.GetState(), e.GetSource(),
			e.GetWords(), e.GetSender(), e.GetMessageId(), e.GetActor().GetSubject(), e.GetKeywordPack(), e.GetRulesVersion(), e.GetConfirmedBy(),
			e.GetConfirmation(), e.GetConfirmationOutcome(), e.GetPrevHash(), e.GetHash(),
		}
		for i := range row {
			row[i] = plainCell(row[i])
		}
		rows = append(rows, row)
	}
	_ = table.WriteAll(rows) // a builder takes everything
	return out.String()
}

// plainCell keeps a spreadsheet from taking a person's words for a formula.
func plainCell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
