// Package handsets has the page of the emulated phones, which people write with where Twilio is emulated.
package handsets

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/console/signin"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// Page is the data of pages/handsets.html.
type Page struct {
	phonesShown

	Shown   []shownHandset
	Address string                  // of this page, with the phones that it shows
	People  []*onboardingv1.Profile // to choose from
	Choices []Choice
}

// shownHandset is a phone with what its page needs.
type shownHandset struct {
	phoneHandset

	Field   string // a or b: which of the two it is
	Typed   string // the number as it was asked for
	Bubbles []handsetBubble
	Answers []string
}

// handsetBubble is a message on it.
type handsetBubble struct {
	phoneMessage

	Gap string // seconds since the message before; empty for the first
}

// Choice is one fault and its words; "" is none.
type Choice struct {
	Name, Value string
	Words       []string
}

// peopleOffered bounds the newest people that the phones are offered for.
const peopleOffered = 50

// usualPhones are shown when none was chosen and no person is enrolled. They are of the range that is reserved for fiction.
func usualPhones() []string { return []string{"+12025550143", "+12025550144"} }

// errOthers refuses an operator who would read and write messages of people of another organisation.
var errOthers = status.Error(codes.PermissionDenied, "the emulated phones text another organisation's number, that of DEFAULT_ORG_ID")

// Of reports whether an organisation has the phones; none has nil ones.
func (h *Phones) Of(orgID string) bool { return h != nil && h.orgID == orgID }

// refuse returns the error for a reader of another organisation.
func (h *Phones) refuse(r *http.Request) error {
	if !h.Of(signin.SessionFrom(r.Context()).OrgID) {
		return errOthers
	}
	return nil
}

// Show shows two handsets, side by side. Its messages ask for themselves once a second, and that request looks up no people.
func (h *Phones) Show(r *http.Request) (Page, error) {
	if err := h.refuse(r); err != nil {
		return Page{}, err
	}
	shown := Page{}
	if r.Header.Get("HX-Request") == "" {
		out, err := h.people.ListProfiles(r.Context(), &onboardingv1.ListProfilesRequest{PageSize: peopleOffered})
		if err != nil {
			return Page{}, err
		}
		shown.People = out.GetProfiles()
	}
	typed := shown.chosen(r)
	phones := make([]string, len(typed))
	for i := range typed {
		phones[i], _ = international(typed[i]) // a text that is no number has no messages, and the page says so
	}
	var err error
	if shown.phonesShown, err = h.show(r.Context(), phones...); err != nil {
		return Page{}, err
	}
	for i, phone := range shown.Handsets {
		shown.Shown = append(shown.Shown, shownHandset{
			phoneHandset: phone, Field: []string{"a", "b"}[i], Typed: typed[i], Bubbles: handsetBubbles(phone.Messages),
			Answers: []string{"Yes", "Later", "STOP", "START"},
		})
	}
	shown.Address = signin.Root + "/handsets?" + url.Values{"a": typed[:1], "b": typed[1:]}.Encode()
	shown.Choices = Choices(shown.Faults)
	return shown, nil
}

// chosen are the two numbers: as they were asked for, else the newest people's.
func (p Page) chosen(r *http.Request) []string {
	phones := []string{r.Form.Get("a"), r.Form.Get("b")}
	for i, text := range phones {
		if phone, ok := international(text); ok {
			phones[i] = phone
		}
	}
	offered := usualPhones()
	for _, person := range slices.Backward(p.People) {
		offered = slices.Insert(offered, 0, person.GetPhone())
	}
	for i := range phones {
		for _, phone := range offered {
			if phones[i] == "" && !slices.Contains(phones, phone) {
				phones[i] = phone
			}
		}
	}
	return phones
}

func handsetBubbles(messages []phoneMessage) (all []handsetBubble) {
	for i, m := range messages {
		b := handsetBubble{phoneMessage: m}
		if i > 0 {
			b.Gap = fmt.Sprintf("%.1f", m.At.Sub(messages[i-1].At).Seconds())
		}
		all = append(all, b)
	}
	return all
}

// Choices are the faults with the words that the emulators know.
func Choices(now Faults) []Choice {
	return []Choice{
		{"sends", now.Sends, []string{"", "down", "slow", "throttled", "refused", "lost"}},
		{"handset", now.Handset, []string{"", "undelivered"}},
		{"receipts", now.Receipts, []string{"", "lost", "late", "twice"}},
		{"replies", now.Replies, []string{"", "lost"}},
		{"alarms", now.Alarms, []string{"", "down", "late", "lost", "twice"}},
	}
}

// Write is a person writing on a handset: what they typed, or one of the usual answers. It returns the key of what it says, and whether
// it was done.
func (h *Phones) Write(r *http.Request) (said string, done bool, err error) {
	if err := h.refuse(r); err != nil {
		return "", false, err
	}
	body := r.Form.Get("answer")
	if body == "" {
		body = r.Form.Get("body")
	}
	phone, ok := international(r.Form.Get("phone"))
	if !ok {
		return "handsets.no_phone", false, nil
	}
	posted, err := h.send(r.Context(), phone, body)
	if posted {
		return "handsets.sent", true, err
	}
	return "handsets.not_taken", false, err
}

// twilioCode is an error code of Twilio, as the emulators take it.
var twilioCode = regexp.MustCompile(`^[1-9][0-9]{4}$`)

// Break switches the faults, as Write.
func (h *Phones) Break(r *http.Request) (said string, done bool, err error) {
	if err := h.refuse(r); err != nil {
		return "", false, err
	}
	code := 0 // the usual one
	if text := strings.TrimSpace(r.Form.Get("code")); text != "" {
		if !twilioCode.MatchString(text) {
			return "fault.bad_code", false, nil
		}
		code, _ = strconv.Atoi(text) // of five digits
	}
	f := r.Form
	return "handsets.changed", true, h.change(r.Context(), Faults{
		Sends: f.Get("sends"), Receipts: f.Get("receipts"), Handset: f.Get("handset"), Replies: f.Get("replies"), Alarms: f.Get("alarms"),
		Code: code,
	})
}
