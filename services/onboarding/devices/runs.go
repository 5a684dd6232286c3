package devices

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"paceline.internal/platform/hours"
	"paceline.internal/services/onboarding/goals"
)

// maxSaidKey bounds the key of what is said to a device, in characters.
const maxSaidKey = 200

// handle does what a frame says. Its error ends the stream: a device that comes back says of each run what it knows, so nothing that could
// not be stored is lost.
func (h *Hub) handle(s *stream, frame Frame) error {
	switch f := frame.(type) {
	case Report:
		return h.report(s, f)
	case Acknowledge:
		return h.started(s, f.RunID)
	case Progress:
		return h.progress(s, f)
	case Ended:
		return h.ended(s, f)
	case Said:
		return h.said(s, f)
	}
	return nil
}

func (h *Hub) report(s *stream, f Report) error {
	switch f.State {
	case RunStarted:
		return h.started(s, f.RunID)
	case RunEnded:
		return h.ended(s, Ended{RunID: f.RunID, OK: f.OK, Detail: f.Detail})
	case RunNeverSaw:
		return h.again(s, f.RunID)
	}
	return nil
}

// started notes that the device has a run, which from then on is never offered again.
func (h *Hub) started(s *stream, runID string) error {
	return h.call(s.ctx, func(ctx context.Context) error {
		first, err := h.Store.Acknowledge(ctx, s.DeviceID, runID, h.Now())
		if err != nil {
			return err
		}
		if first {
			h.count(ctx, offerAcknowledged)
			return nil
		}
		return h.hear(ctx, s, runID, "")
	})
}

// progress notes a sign of life. Of those that follow one upon the other the first counts.
func (h *Hub) progress(s *stream, f Progress) error {
	now := h.Now()
	if s.heard == f.RunID && now.Before(s.heardAt.Add(progressEvery)) {
		return nil
	}
	s.heard, s.heardAt = f.RunID, now
	return h.call(s.ctx, func(ctx context.Context) error { return h.hear(ctx, s, f.RunID, brief(f.Text, maxDetail)) })
}

// hear notes that a run goes on. One that is not open on this device, which it may believe for a while after it was given up, is to stop.
func (h *Hub) hear(ctx context.Context, s *stream, runID, progress string) error {
	open, err := h.Store.Hear(ctx, s.DeviceID, runID, progress, h.Now())
	if err == nil && !open {
		s.stop(runID)
	}
	return err
}

// ended ends a run, unless it has ended, or is none of this device's.
func (h *Hub) ended(s *stream, f Ended) error {
	end := goals.End{
		RunID: f.RunID, DeviceID: s.DeviceID, OK: f.OK, Detail: brief(f.Detail, maxDetail), Actor: "device:" + s.DeviceID, At: h.Now(),
	}
	if !f.OK {
		end.Reason = goals.ReasonDevice
	}
	return h.call(s.ctx, func(ctx context.Context) error {
		_, err := h.Goals.End(ctx, goals.Stream, end)
		return err
	})
}

// again offers a run to a device that has never seen it. One that has acknowledged the run may have begun it before it forgot: the run is
// given up.
func (h *Hub) again(s *stream, runID string) error {
	return h.call(s.ctx, func(ctx context.Context) error {
		offer, err := h.Store.OfferAgain(ctx, h.node, goals.Call{DeviceID: s.DeviceID, Epoch: s.Epoch}, runID, h.Now())
		switch {
		case errors.Is(err, goals.ErrForgotten):
			h.count(ctx, offerForgotten)
			_, err := h.Goals.End(ctx, goals.Stream, goals.End{
				RunID: runID, DeviceID: s.DeviceID, Reason: goals.ReasonLost, Detail: goals.ErrForgotten.Error(), Actor: "device:" + s.DeviceID,
				At: h.Now(),
			})
			return err
		case errors.Is(err, goals.ErrConflict): // it has ended meanwhile
			return nil
		case err != nil:
			return err
		}
		h.offer(ctx, s, Offer(offer), offerRepeated)
		return nil
	})
}

// said takes a goal that was said to the device. It is answered, also when it is refused; the same key again gets the goal that there is.
func (h *Hub) said(s *stream, f Said) error {
	var g goals.Goal
	n, err := s.goal(f)
	if err == nil {
		err = within(s.ctx, h.saying, sayTimeout, func(ctx context.Context) (err error) {
			g, _, err = h.Goals.Create(ctx, n)
			return err
		})
	}
	if err != nil {
		h.Log.InfoContext(s.ctx, "goals.said_not_taken", "device_id", s.DeviceID, "error", err)
	}
	s.send(Answer{Key: brief(f.Key, maxSaidKey), Goal: g, Err: err})
	return context.Cause(s.ctx)
}

// goal makes of what was said a goal for Create. goals.ErrInvalid.
func (s *stream) goal(f Said) (goals.New, error) {
	n := goals.New{
		OrgID: s.OrgID, ProfileID: s.ProfileID, DeviceID: s.DeviceID, Said: f.Goal, Source: goals.SourceDevice,
		Key: "device:" + s.DeviceID + ":" + f.Key, By: "device:" + s.DeviceID,
	}
	if f.Key == "" || f.Key != brief(f.Key, maxSaidKey) || !utf8.ValidString(f.Goal) {
		return n, fmt.Errorf("%w: key must have 1 to %d characters", goals.ErrInvalid, maxSaidKey)
	}
	switch goals.Source(f.Source) {
	case "", goals.SourceDevice:
	case goals.SourceVoice:
		n.Source = goals.SourceVoice
	default:
		return n, fmt.Errorf("%w: source must be device or voice", goals.ErrInvalid)
	}
	if f.Zone != "" {
		_, zone, err := hours.ParsePlace(f.Zone)
		if err != nil {
			return n, fmt.Errorf("%w: %w", goals.ErrInvalid, err)
		}
		n.Zone = zone
	}
	return n, nil
}
