package backup

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/restores"
)

// compare brings the two databases together: holds, what steps have sent and messaging had lost, and what messaging has sent for
// conversations that onboarding had lost.
func (w *work) compare(ctx context.Context) error {
	holds, err := w.compareHolds(ctx)
	if err != nil {
		return err
	}
	known, gone, err := w.compareSteps(ctx)
	if err != nil {
		return err
	}
	lost, unknown, err := w.compareMessages(ctx)
	if err != nil {
		return err
	}
	w.printf("3  compared     of the steps whose message messaging had lost, Twilio has %d and does not have %d\n", known, gone)
	if lost+unknown > 0 {
		w.printf("                %s held and %s unknown to onboarding: messaging has messages of a conversation that it lost\n",
			many(lost, "person"), many(unknown, "phone"))
	}
	if holds > 0 {
		w.printf("                %s at messaging is later than onboarding has it: held\n", many(holds, "hold"))
	}
	return nil
}

// compareHolds holds whom an operator held later than onboarding's database has it, and counts them. Who was released later stays held:
// releasing them is an operator's word.
func (w *work) compareHolds(ctx context.Context) (later int, err error) {
	holds, err := w.holds.Holds(ctx)
	if err != nil {
		return 0, err
	}
	for _, h := range holds {
		p, err := w.onboarding.People().ProfileByPhone(ctx, h.OrgID.String(), h.Phone)
		if errors.Is(err, people.ErrNoProfile) || err == nil && (h.Version <= p.HoldVersion || !h.Held && !p.Hold) {
			continue
		}
		if err == nil {
			err = w.onboarding.People().HoldAnew(ctx, p, Reason+": they were held after the instant of the backup", w.Now())
		}
		if err != nil {
			return later, err
		}
		later++
	}
	return later, nil
}

// compareSteps finds at Twilio what onboarding has sent and messaging had lost: no step asks for it again. It counts what was found, and
// what Twilio does not have either.
func (w *work) compareSteps(ctx context.Context) (known, gone int, err error) {
	steps, err := w.onboarding.Restores().SentSince(ctx, w.lostSince())
	if err != nil {
		return 0, 0, err
	}
	ids := make([]uuid.UUID, len(steps))
	for i, s := range steps {
		ids[i] = s.MessageID
	}
	without, err := w.sent.WithoutRow(ctx, ids)
	if err != nil {
		return 0, 0, err
	}
	orphans, err := w.sent.Orphans(ctx, w.lostSince())
	if err != nil {
		return 0, 0, err
	}
	found := match(steps, without, orphans)
	return len(found), len(without) - len(found), w.sent.Know(ctx, found, w.Now())
}

// match pairs steps that have no message with found messages to the same person, each the nearest in time that is left, and returns the
// ids of the messages.
func match(steps []restores.StepSent, without []uuid.UUID, orphans []send.Orphan) (found []uuid.UUID) {
	lacks, taken := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}
	for _, id := range without {
		lacks[id] = true
	}
	of := map[person][]send.Orphan{}
	for _, o := range orphans {
		to := person{o.OrgID.String(), o.Phone}
		of[to] = append(of[to], o)
	}
	for _, s := range steps {
		if !lacks[s.MessageID] {
			continue
		}
		best, near := uuid.Nil, margin
		for _, o := range of[person{s.OrgID, s.Phone}] {
			if apart := s.At.Sub(o.At).Abs(); !taken[o.ID] && apart <= near && (best == uuid.Nil || apart < near) {
				best, near = o.ID, apart
			}
		}
		if best != uuid.Nil {
			taken[best] = true
			found = append(found, best)
		}
	}
	return found
}

// compareMessages holds the people to whom messaging has sent something for a conversation that onboarding had lost, and counts them, and
// the phones that onboarding knows no more.
func (w *work) compareMessages(ctx context.Context) (held, unknown int, err error) {
	const prefix = "onboarding:" // of session.Key
	keyed, err := w.sent.Keyed(ctx, prefix, w.restore.OnboardingSince.Add(-margin))
	if err != nil {
		return 0, 0, err
	}
	of, ids := map[string]person{}, []string{}
	for _, m := range keyed {
		parts := strings.Split(m.Key, ":")
		if len(parts) < 4 || uuid.Validate(parts[2]) != nil {
			continue
		}
		if _, seen := of[parts[2]]; !seen {
			ids = append(ids, parts[2])
		}
		of[parts[2]] = person{m.OrgID.String(), m.Phone}
	}
	lost, err := w.onboarding.Restores().NoSession(ctx, ids)
	if err != nil {
		return 0, 0, err
	}
	seen := map[person]bool{}
	for _, id := range lost {
		to := of[id]
		if seen[to] {
			continue
		}
		seen[to] = true
		known, err := w.hold(ctx, to, "their conversation began after "+w.restore.OnboardingSince.UTC().Format(time.RFC3339)+" and was lost")
		switch {
		case err != nil:
			return held, unknown, err
		case known:
			held++
		default:
			unknown++
		}
	}
	return held, unknown, nil
}

// hold holds a person for a reason, unless they have opted out: nothing is sent to them. It reports whether onboarding knows them.
func (w *work) hold(ctx context.Context, who person, reason string) (known bool, err error) {
	p, err := w.onboarding.People().ProfileByPhone(ctx, who.orgID, who.phone)
	if errors.Is(err, people.ErrNoProfile) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	orgID, err := uuid.Parse(who.orgID)
	if err != nil {
		return false, err
	}
	state, err := w.holds.State(ctx, orgID, who.phone)
	if err != nil || state == consent.OptedOut {
		return true, err
	}
	return true, w.onboarding.People().HoldAnew(ctx, p, Reason+": "+reason, w.Now())
}
