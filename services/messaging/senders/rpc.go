package senders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// RPC serves SenderService.
type RPC struct {
	messagingv1.UnimplementedSenderServiceServer

	Directory *Directory
	Ledgers   *ledger.Store // of those who wrote to an organisation that is forgotten
	Log       *slog.Logger
}

const (
	longestName   = 60
	mostCountries = 250
	slowest       = 0.01
	fastest       = 1000
)

var (
	accountSID = regexp.MustCompile(`^AC[0-9a-f]{32}$`)
	apiKeySID  = regexp.MustCompile(`^SK[0-9a-f]{32}$`)
	serviceSID = regexp.MustCompile(`^MG[0-9a-f]{32}$`)
	country    = regexp.MustCompile(`^[A-Z]{2}$`)
)

// CreateSender checks a sender and stores it.
func (s *RPC) CreateSender(ctx context.Context, r *messagingv1.CreateSenderRequest) (*messagingv1.CreateSenderResponse, error) {
	view, err := edge.ViewOf(ctx, s.Directory.Environment.OrgID)
	if err != nil {
		return nil, err
	}
	sender, secrets, err := readSender(r)
	if err != nil {
		return nil, err
	}
	sender.OrgID = view.OrgID
	created, err := s.Directory.Create(ctx, sender, secrets)
	if err != nil {
		return nil, err
	}
	return &messagingv1.CreateSenderResponse{Sender: write(created)}, nil
}

// ListSenders lists the senders of the caller's organisation.
func (s *RPC) ListSenders(ctx context.Context, _ *messagingv1.ListSendersRequest) (*messagingv1.ListSendersResponse, error) {
	view, err := edge.ViewOf(ctx, s.Directory.Environment.OrgID)
	if err != nil {
		return nil, err
	}
	rows, err := s.Directory.Store.of(ctx, view.OrgID)
	if err != nil {
		return nil, err
	}
	answer := &messagingv1.ListSendersResponse{}
	for _, row := range rows {
		if row.DeletedAt.IsZero() {
			answer.Senders = append(answer.Senders, write(row.Sender))
		}
	}
	return answer, nil
}

// GetSender reads one sender.
func (s *RPC) GetSender(ctx context.Context, r *messagingv1.GetSenderRequest) (*messagingv1.GetSenderResponse, error) {
	orgID, id, err := s.named(ctx, r.GetSenderId())
	if err != nil {
		return nil, err
	}
	row, err := s.Directory.find(ctx, orgID, id)
	if err != nil {
		return nil, err
	}
	return &messagingv1.GetSenderResponse{Sender: write(row.Sender)}, nil
}

// UpdateSender changes a sender.
func (s *RPC) UpdateSender(ctx context.Context, r *messagingv1.UpdateSenderRequest) (*messagingv1.UpdateSenderResponse, error) {
	orgID, id, err := s.named(ctx, r.GetSenderId())
	if err != nil {
		return nil, err
	}
	change, err := readChange(r)
	if err != nil {
		return nil, err
	}
	updated, err := s.Directory.Update(ctx, orgID, id, change)
	if err != nil {
		return nil, err
	}
	return &messagingv1.UpdateSenderResponse{Sender: write(updated)}, nil
}

// DeleteSender deletes a sender.
func (s *RPC) DeleteSender(ctx context.Context, r *messagingv1.DeleteSenderRequest) (*messagingv1.DeleteSenderResponse, error) {
	orgID, id, err := s.named(ctx, r.GetSenderId())
	if err != nil {
		return nil, err
	}
	if err := s.Directory.Delete(ctx, orgID, id); err != nil {
		return nil, err
	}
	return &messagingv1.DeleteSenderResponse{}, nil
}

// named reads who asks for which sender.
func (s *RPC) named(ctx context.Context, senderID string) (orgID, id uuid.UUID, err error) {
	view, err := edge.ViewOf(ctx, s.Directory.Environment.OrgID)
	if err != nil {
		return uuid.Nil, uuid.Nil, err
	}
	id, err = edge.ReadID("sender_id", senderID)
	return view.OrgID, id, err
}

// GetCallbackAccount tells the gateway how callbacks of an account are signed. What cannot be opened does not sign.
func (s *RPC) GetCallbackAccount(
	ctx context.Context, r *messagingv1.GetCallbackAccountRequest,
) (*messagingv1.GetCallbackAccountResponse, error) {
	answer, env := &messagingv1.GetCallbackAccountResponse{}, s.Directory.Environment
	switch {
	case env.AccountSID != "" && r.GetAccountSid() == env.AccountSID: // whatever its form
		own := callback(env)
		own.Environment = true
		answer.Known, answer.Environment, answer.Senders = true, true, append(answer.Senders, own)
	case !accountSID.MatchString(r.GetAccountSid()):
		return answer, nil
	}
	rows, err := s.Directory.Store.ofAccount(ctx, r.GetAccountSid())
	if err != nil {
		return nil, err
	}
	var closed error
	opened := answer.GetEnvironment()
	for _, row := range rows {
		if !row.DeletedAt.IsZero() {
			continue
		}
		of := callback(row.Sender)
		answer.Known, answer.Senders = true, append(answer.Senders, of)
		secrets, err := s.Directory.Keyset.openAll(row.OrgID, row.ID, row.sealed)
		if err != nil { // perhaps this replica does not have the new keyset yet
			s.Log.WarnContext(ctx, "messaging.sender_not_opened", "sender_id", row.ID)
			closed = err
			continue
		}
		opened = true
		of.AuthTokens = slices.DeleteFunc([]string{secrets.AuthToken, secrets.NextAuthToken}, func(token string) bool { return token == "" })
	}
	if closed != nil && !opened { // nothing of the account can be verified here: another replica may
		return nil, errors.Join(sms.ErrUnavailable, closed)
	}
	moved, err := s.Directory.Store.moved(ctx, r.GetAccountSid())
	switch {
	case err != nil:
		return nil, err
	case len(moved) > 0 && !answer.GetKnown():
		return nil, fmt.Errorf("%w: the organisation that has the account moves to another deployment, or lives there", sms.ErrUnavailable)
	}
	answer.Senders = append(answer.Senders, moved...) // so that their messages are nobody else's
	return answer, nil
}

// ListSenderOrganisations tells onboarding which organisations have a sender.
func (s *RPC) ListSenderOrganisations(
	ctx context.Context, _ *messagingv1.ListSenderOrganisationsRequest,
) (*messagingv1.ListSenderOrganisationsResponse, error) {
	ids, err := s.Directory.Organisations(ctx)
	if err != nil {
		return nil, err
	}
	answer := &messagingv1.ListSenderOrganisationsResponse{}
	for _, id := range ids {
		answer.OrgIds = append(answer.OrgIds, id.String())
	}
	return answer, nil
}

func callback(s Sender) *messagingv1.CallbackSender {
	return &messagingv1.CallbackSender{OrgId: s.OrgID.String(), Number: s.Number, MessagingServiceSid: s.ServiceSID}
}

func write(s Sender) *messagingv1.Sender {
	return &messagingv1.Sender{
		SenderId: s.ID.String(), Name: s.Name, AccountSid: s.AccountSID, ApiKeySid: s.APIKeySID, MessagingServiceSid: s.ServiceSID,
		Number: s.Number, SegmentsPerSecond: s.Rate, Countries: s.Countries, Status: string(s.Status), HasNextAuthToken: s.HasNext,
		Version: s.Version, CreatedAt: timestamppb.New(s.CreatedAt), UpdatedAt: timestamppb.New(s.UpdatedAt),
	}
}

// readSender reads a new sender.
func readSender(r *messagingv1.CreateSenderRequest) (s Sender, secrets Credentials, err error) {
	rate := r.GetSegmentsPerSecond()
	if rate == 0 {
		rate = 1
	}
	s = Sender{
		Name: r.GetName(), AccountSID: r.GetAccountSid(), APIKeySID: r.GetApiKeySid(), ServiceSID: r.GetMessagingServiceSid(),
		Number: r.GetNumber(), Rate: rate, Countries: r.GetCountries(),
	}
	secrets = Credentials{APIKeySecret: r.GetApiKeySecret(), AuthToken: r.GetAuthToken(), NextAuthToken: r.GetNextAuthToken()}
	if s.Name, err = edge.ReadLine("name", s.Name, longestName); err != nil {
		return s, secrets, err
	}
	_, phoneErr := sms.StoredPhone(s.Number)
	switch {
	case !accountSID.MatchString(s.AccountSID):
		err = edge.Invalid("account_sid", "must be AC and 32 hex digits")
	case !apiKeySID.MatchString(s.APIKeySID):
		err = edge.Invalid("api_key_sid", "must be SK and 32 hex digits")
	case s.ServiceSID == "" && s.Number == "":
		err = edge.Invalid("messaging_service_sid or number", "is missing: one of them is what texts come from")
	case s.ServiceSID != "" && !serviceSID.MatchString(s.ServiceSID):
		err = edge.Invalid("messaging_service_sid", "must be MG and 32 hex digits")
	case s.Number != "" && phoneErr != nil:
		err = edge.Invalid("number", "must be in E.164, such as +14155550123")
	default:
		err = errors.Join(checkSecret("api_key_secret", secrets.APIKeySecret, false), checkSecret("auth_token", secrets.AuthToken, false),
			checkSecret("next_auth_token", secrets.NextAuthToken, true), checkRate(s.Rate), checkCountries(s.Countries))
	}
	return s, secrets, err
}

// readChange reads a change.
func readChange(r *messagingv1.UpdateSenderRequest) (Change, error) {
	c := Change{
		Name: r.Name, APIKeySID: r.ApiKeySid, APIKeySecret: r.ApiKeySecret, AuthToken: r.AuthToken, NextAuthToken: r.NextAuthToken,
		Rate: r.SegmentsPerSecond,
	}
	var problems []error
	if r.Name != nil {
		name, err := edge.ReadLine("name", r.GetName(), longestName)
		c.Name, problems = &name, append(problems, err)
	}
	if r.ApiKeySid != nil && (!apiKeySID.MatchString(r.GetApiKeySid()) || r.ApiKeySecret == nil) {
		problems = append(problems, edge.Invalid("api_key_sid", "must be SK and 32 hex digits, and come with its api_key_secret"))
	}
	if r.ApiKeySecret != nil {
		problems = append(problems, checkSecret("api_key_secret", r.GetApiKeySecret(), false))
	}
	if r.AuthToken != nil {
		problems = append(problems, checkSecret("auth_token", r.GetAuthToken(), false))
	}
	if r.NextAuthToken != nil {
		problems = append(problems, checkSecret("next_auth_token", r.GetNextAuthToken(), true))
	}
	if r.SegmentsPerSecond != nil {
		problems = append(problems, checkRate(r.GetSegmentsPerSecond()))
	}
	if r.GetCountries() != nil {
		codes := r.GetCountries().GetCodes()
		c.Countries, problems = &codes, append(problems, checkCountries(codes))
	}
	if r.Status != nil {
		status := Status(r.GetStatus())
		c.Status = &status
		if status != Active && status != Disabled {
			problems = append(problems, edge.Invalid("status", "must be active or disabled"))
		}
	}
	return c, errors.Join(problems...)
}

func checkSecret(field, text string, mayBeEmpty bool) error {
	const longest = 200
	if text == "" && mayBeEmpty || twilio.Takes(text) && len(text) <= longest {
		return nil
	}
	return edge.Invalid(field, "must have letters and digits alone, as Twilio shows it")
}

func checkRate(rate float64) error {
	if rate >= slowest && rate <= fastest {
		return nil
	}
	return edge.Invalid("segments_per_second", "must be 0.01 to 1000")
}

func checkCountries(codes []string) error {
	if len(codes) > mostCountries || slices.ContainsFunc(codes, func(code string) bool { return !country.MatchString(code) }) {
		return edge.Invalid("countries", "must be codes of two capital letters, such as BR")
	}
	return nil
}
