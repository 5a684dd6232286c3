package readback

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/process"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/twilio"
)

// readSent stores what was sent and the database has not.
func (s *Service) readSent(ctx context.Context, r Readback, all []senders.Sender, no refusals) (n int, err error) {
	asked := map[string]bool{}
	for _, from := range all {
		if asked[from.AccountSID] {
			continue
		}
		through := s.Carrier
		if from.ID != uuid.Nil {
			if through, err = s.Senders.Client(ctx, r.OrgID, from.ID); errors.Is(err, senders.ErrGone) {
				continue // nothing can be asked without its credentials
			} else if err != nil {
				return n, err
			}
		}
		kept, err := s.readAccount(ctx, r, from, through)
		n += kept // also with an error
		if no.note(from, err) {
			continue // another sender of the account may have another key
		}
		if err != nil {
			return n, err
		}
		asked[from.AccountSID] = true
	}
	return n, nil
}

// account holds what an account has sent: organisations may share one, and each of them would list all of it.
type account struct {
	mu sync.Mutex
	record

	// under Service.mu:
	texts int // of the record
	users int // readbacks that wait for the record or read it
}

// keptTexts bounds the messages in records that nobody reads.
const keptTexts = 200_000

// record is Twilio's of what an account has sent; nothing changes it.
type record struct {
	of   loss // what it was read for; zero before
	sent map[uuid.UUID][]owned
	// whole and more are as twilio.Client has them.
	whole bool
	more  error
	// stops says that more may hide lost messages: some of the newest are lost, of any organisation, or all are other programs'. One
	// organisation may have filled the newest, while another has lost older ones.
	stops bool
	// failure is why it could not be read, in this pass. Nobody else tries in it, for each try may take as long as Twilio may.
	failure error
}

// loss identifies what readbacks have in common that began together: what one reads, the others need not.
type loss struct{ since, noticed time.Time }

// owned is a message and the sender that sent it.
type owned struct {
	twilio.Sent

	by senders.Sender
}

// use returns an account until done.
func (s *Service) use(sid string) *account {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, known := s.accounts[sid]
	if !known {
		a = new(account)
		s.accounts[sid] = a
	}
	a.users++
	return a
}

func (s *Service) done(a *account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.users--
}

// makeRoom forgets what nobody reads, if a new record would be too much.
func (s *Service) makeRoom(a *account, texts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.texts = texts
	kept := 0
	for _, one := range s.accounts {
		kept += one.texts
	}
	if kept > keptTexts {
		maps.DeleteFunc(s.accounts, func(_ string, one *account) bool { return one.users == 0 })
	}
}

// sent returns what an account has sent, which is read once for all that began together. After a refusal each tries its own key.
func (s *Service) sent(ctx context.Context, a *account, r Readback, from senders.Sender, through *twilio.Client) (record, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	process.Progress(ctx) // it may have waited for long
	if of := (loss{r.Since, r.NoticedAt}); a.of != of {
		read, texts, err := s.list(ctx, r, from, through)
		if err != nil && (refused(err) || ctx.Err() != nil) {
			return record{}, err
		}
		s.makeRoom(a, texts)
		a.record, a.of, a.failure = read, of, err
	}
	return a.record, a.failure
}

// list reads what an account has sent, and counts what it keeps of it.
func (s *Service) list(ctx context.Context, r Readback, from senders.Sender, through *twilio.Client) (read record, texts int, err error) {
	listed, whole, more := through.ListSent(ctx, r.Since.Add(-margin))
	if more != nil && !errors.Is(more, twilio.ErrMoreSent) {
		return record{}, 0, more
	}
	sent := map[uuid.UUID][]owned{}
	for _, m := range listed {
		owner, err := s.Senders.Sent(ctx, from.AccountSID, m.From, m.ServiceSID)
		if errors.Is(err, senders.ErrUnknownSender) {
			continue // another program's
		}
		if err != nil {
			return record{}, 0, err
		}
		sent[owner.OrgID] = append(sent[owner.OrgID], owned{m, owner})
		texts++
	}
	if more != nil {
		stops, err := s.anyLost(ctx, sent)
		return record{whole: whole, more: more, stops: stops}, 0, err // nobody asks for some of what was sent
	}
	return record{sent: sent, whole: whole}, texts, nil
}

// anyLost reports whether something is lost of what each organisation has sent, or nothing is any organisation's. What an organisation
// sends that has moved, another cell knows.
func (s *Service) anyLost(ctx context.Context, sent map[uuid.UUID][]owned) (bool, error) {
	here, err := s.Senders.Organisations(ctx)
	if err != nil {
		return false, err
	}
	none := true
	for org, messages := range sent {
		if !slices.Contains(here, org) {
			continue
		}
		none = false
		all := make([]twilio.Sent, len(messages))
		for i, m := range messages {
			all[i] = m.Sent
		}
		lost, err := s.Sent.Lost(ctx, org, all)
		if err == nil && len(lost) > 0 { // or it was answered between the two statements: the organisation may send already
			lost, err = s.Sent.Lost(ctx, org, all)
		}
		if err != nil || len(lost) > 0 {
			return len(lost) > 0, err
		}
		process.Progress(ctx)
	}
	return none, nil
}

// forget forgets all accounts, or those that could not be read. It is called between two passes.
func (s *Service) forget(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.accounts, func(_ string, a *account) bool { return all || a.failure != nil })
}

// readAccount stores what an account has sent for the organisation.
func (s *Service) readAccount(ctx context.Context, r Readback, from senders.Sender, through *twilio.Client) (int, error) {
	a := s.use(from.AccountSID)
	defer s.done(a)
	record, err := s.sent(ctx, a, r, from, through)
	if err != nil {
		return 0, err
	}
	if record.more != nil && (!r.Suspected || record.stops) {
		return 0, record.more
	}
	if !record.whole {
		s.Log.WarnContext(ctx, "messaging.readback_queue_unread", "org_id", r.OrgID)
	}
	if record.more != nil { // of a time of months, or of an account that others use
		return 0, nil
	}
	owners, ours := map[string]senders.Sender{}, []twilio.Sent{}
	for _, m := range record.sent[r.OrgID] {
		owners[m.SID], ours = m.by, append(ours, m.Sent)
	}
	slices.SortFunc(ours, func(a, b twilio.Sent) int { return a.CreatedAt.Compare(b.CreatedAt) })
	now := s.Now()
	return s.Sent.KeepLost(ctx, r.OrgID, ours, func(m twilio.Sent) send.Message { return send.Unclaimed(m, owners[m.SID], now) }, now)
}
