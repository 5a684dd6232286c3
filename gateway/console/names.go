package console

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	// maxNamed bounds the people of a page that are read by their ids, and namedAtOnce those that are read at once. The others are
	// shown by their ids.
	maxNamed    = 100
	namedAtOnce = 8
)

// profilesOf reads people by their ids, at most maxNamed. One who cannot be read has no name on the page, and is not there.
func (c *Console) profilesOf(ctx context.Context, ids []string) map[string]*onboardingv1.Profile {
	found := map[string]*onboardingv1.Profile{}
	ids = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(ids))), func(id string) bool { return id == "" })
	if ids = ids[:min(len(ids), maxNamed)]; len(ids) == 0 {
		return found
	}
	got, err := c.services.Onboarding.ListProfiles(ctx, &onboardingv1.ListProfilesRequest{ProfileId: ids, PageSize: maxNamed})
	if err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "console.part_failed", "part", "profiles", "error", err)
	}
	for _, p := range got.GetProfiles() {
		found[p.GetProfileId()] = p
	}
	return found
}

// peopleOfSessions reads the people of these sessions, at most maxNamed.
func (c *Console) peopleOfSessions(ctx context.Context, ids []string) map[string]*onboardingv1.Profile {
	return c.readEach(ctx, "sessions", ids, func(ctx context.Context, id string) (*onboardingv1.Profile, error) {
		person, _, err := c.about(ctx, "sessions", id)
		return person, err
	})
}

// readEach reads the people of the rows with these ids, each once. A row that cannot be read is logged and left out: the page is drawn
// without it.
func (c *Console) readEach(
	ctx context.Context, part string, ids []string, read func(ctx context.Context, id string) (*onboardingv1.Profile, error),
) map[string]*onboardingv1.Profile {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(namedAtOnce)
	found, asked := map[string]*onboardingv1.Profile{}, map[string]bool{}
	for _, id := range ids {
		if id == "" || asked[id] || len(asked) == maxNamed {
			continue
		}
		asked[id] = true
		group.Go(func() error {
			person, err := read(ctx, id)
			if err != nil && ctx.Err() == nil {
				c.log.WarnContext(ctx, "console.part_failed", "part", part, "error", err)
			}
			if mu.Lock(); err == nil && person != nil {
				found[id] = person
			}
			mu.Unlock()
			return nil
		})
	}
	_ = group.Wait() // each has logged what failed
	return found
}
