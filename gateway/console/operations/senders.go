package operations

import (
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// sendersPage is the data of pages/senders.html.
type sendersPage struct {
	Senders []*messagingv1.Sender
}

// senders lists what the organisation sends from.
func (p *Pages) senders(r *http.Request) (Page, error) {
	out, err := p.Senders.ListSenders(r.Context(), &messagingv1.ListSendersRequest{})
	return Page{"senders", "senders.title", sendersPage{out.GetSenders()}}, err
}

// senderPage is the data of pages/sender.html.
type senderPage struct{ *messagingv1.Sender }

// Countries returns the countries that it is used for first, as a form has them.
func (p senderPage) Countries() string { return strings.Join(p.GetCountries(), ", ") }

// sender shows one of them. Its credentials are not read by anybody.
func (p *Pages) sender(r *http.Request) (Page, error) {
	out, err := p.Senders.GetSender(r.Context(), &messagingv1.GetSenderRequest{SenderId: r.PathValue("sender")})
	return Page{"sender", "senders.one", senderPage{out.GetSender()}}, err
}

// errRate refuses a rate that is no number.
var errRate = status.Error(codes.InvalidArgument, "segments a second are a number, such as 1 or 0.5")

func rateOf(text string) (float64, error) {
	rate, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return 0, errRate
	}
	return rate, nil
}

// addSender stores a sender, once Twilio has taken its credentials. They are not kept when the form did not work.
func (p *Pages) addSender(r *http.Request) (Notice, error) {
	kept := Notice{Typed: typed(r, "name", "account_sid", "api_key_sid", "messaging_service_sid", "number", "rate", "countries")}
	field := func(name string) string { return strings.TrimSpace(r.Form.Get(name)) }
	rate, err := rateOf(field("rate"))
	if err != nil {
		return kept, err
	}
	made, err := p.Senders.CreateSender(r.Context(), &messagingv1.CreateSenderRequest{
		Name: field("name"), AccountSid: field("account_sid"), ApiKeySid: field("api_key_sid"), ApiKeySecret: field("api_key_secret"),
		AuthToken: field("auth_token"), MessagingServiceSid: field("messaging_service_sid"), Number: field("number"),
		SegmentsPerSecond: rate, Countries: typesOf(field("countries")),
	})
	if err != nil {
		return kept, err
	}
	n := said("senders.made")
	n.To = p.Root + "/senders/" + made.GetSender().GetSenderId()
	return n, nil
}

// changeSender does one thing with a sender.
func (p *Pages) changeSender(r *http.Request) (Notice, error) {
	id, deed := r.PathValue("sender"), r.PathValue("deed")
	in := &messagingv1.UpdateSenderRequest{SenderId: id}
	var kept Notice
	switch deed {
	case "change":
		kept.Typed = typed(r, "name", "rate", "countries")
		rate, err := rateOf(r.Form.Get("rate"))
		if err != nil {
			return kept, err
		}
		in.Name, in.SegmentsPerSecond = new(strings.TrimSpace(r.Form.Get("name"))), &rate
		in.Countries = &messagingv1.CountryList{Codes: typesOf(r.Form.Get("countries"))}
	case "key":
		in.ApiKeySid, in.ApiKeySecret = new(strings.TrimSpace(r.Form.Get("api_key_sid"))), new(strings.TrimSpace(r.Form.Get("api_key_secret")))
	case "token":
		in.AuthToken, in.NextAuthToken = new(strings.TrimSpace(r.Form.Get("auth_token"))), new("")
	case "next-token":
		in.NextAuthToken = new(strings.TrimSpace(r.Form.Get("next_auth_token")))
	case "disable":
		in.Status = new("disabled")
	case "enable":
		in.Status = new("active")
	case "delete":
		_, err := p.Senders.DeleteSender(r.Context(), &messagingv1.DeleteSenderRequest{SenderId: id})
		n := said("senders.delete.done")
		n.To = p.Root + "/senders"
		if err != nil {
			n = Notice{}
		}
		return n, err
	default:
		return Notice{}, errForm
	}
	if _, err := p.Senders.UpdateSender(r.Context(), in); err != nil {
		return kept, err
	}
	return said("senders." + deed + ".done"), nil
}
