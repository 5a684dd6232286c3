package senders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// Change has the new values of a sender; nil leaves a field as it is.
type Change struct {
	Name, APIKeySID, APIKeySecret, AuthToken, NextAuthToken *string
	Rate                                                    *float64
	Countries                                               *[]string
	Status                                                  *Status
}

// credentials reports whether it changes a credential.
func (c Change) credentials() bool {
	return c.APIKeySID != nil || c.APIKeySecret != nil || c.AuthToken != nil || c.NextAuthToken != nil
}

// Create checks a sender at Twilio and stores it. Errors: ErrRefused, ErrNotOfAccount, ErrClaimed, ErrNoKeyset, sms.ErrInvalid,
// sms.ErrUnavailable.
func (d *Directory) Create(ctx context.Context, s Sender, secrets Credentials) (Sender, error) {
	if d.Keyset == nil {
		return Sender{}, ErrNoKeyset
	}
	rows, err := d.Store.of(ctx, s.OrgID)
	if err != nil {
		return Sender{}, fmt.Errorf("read the senders: %w", err)
	}
	rows = slices.DeleteFunc(rows, func(row stored) bool { return !row.DeletedAt.IsZero() })
	if len(rows) >= most {
		return Sender{}, edge.Invalid("the organisation", fmt.Sprintf("has %d senders already, which is the most", most))
	}
	if s.ID, err = uuid.NewV7(); err != nil {
		return Sender{}, fmt.Errorf("sender id: %w", err)
	}
	if err := d.check(ctx, s, secrets); err != nil {
		return Sender{}, err
	}
	row := stored{Sender: s}
	row.Status, row.Version, row.CreatedAt = Active, 1, d.Now().Truncate(time.Microsecond)
	row.UpdatedAt, row.HasNext = row.CreatedAt, secrets.NextAuthToken != ""
	if row.sealed, err = d.Keyset.sealAll(s.OrgID, s.ID, secrets); err != nil {
		return Sender{}, err
	}
	if err := d.Store.insert(ctx, row); err != nil {
		return Sender{}, fmt.Errorf("store the sender: %w", err)
	}
	d.forget(s)
	return row.Sender, nil
}

// find reads a sender that is not deleted; ErrNotFound.
func (d *Directory) find(ctx context.Context, orgID, id uuid.UUID) (stored, error) {
	rows, err := d.Store.of(ctx, orgID)
	if err != nil {
		return stored{}, fmt.Errorf("read the senders: %w", err)
	}
	i := slices.IndexFunc(rows, func(row stored) bool { return row.ID == id && row.DeletedAt.IsZero() })
	if i < 0 {
		return stored{}, ErrNotFound
	}
	return rows[i], nil
}

// Update changes a sender, and checks it at Twilio if its credentials change or it is to send again. Errors: those of Create, ErrNotFound.
func (d *Directory) Update(ctx context.Context, orgID, id uuid.UUID, c Change) (Sender, error) {
	row, err := d.find(ctx, orgID, id)
	if err != nil {
		return Sender{}, err
	}
	before := row.Status
	apply(&row.Name, c.Name)
	apply(&row.APIKeySID, c.APIKeySID)
	apply(&row.Rate, c.Rate)
	apply(&row.Countries, c.Countries)
	apply(&row.Status, c.Status)
	if c.credentials() || row.Status == Active && before != Active {
		if row.sealed, err = d.reseal(ctx, row, c); err != nil {
			return Sender{}, err
		}
		row.HasNext = row.sealed.NextAuthToken != nil
	}
	return row.Sender, d.write(ctx, &row)
}

// reseal checks the credentials of a row after a change, and seals them. What the keyset cannot open may be given anew.
func (d *Directory) reseal(ctx context.Context, row stored, c Change) (sealed, error) {
	if d.Keyset == nil {
		return sealed{}, ErrNoKeyset
	}
	var secrets Credentials
	var err error
	if c.APIKeySecret == nil || c.AuthToken == nil || c.NextAuthToken == nil {
		secrets, err = d.Keyset.openAll(row.OrgID, row.ID, row.sealed)
	}
	if err != nil {
		return sealed{}, fmt.Errorf("%w: %w", sms.ErrUnavailable, err)
	}
	apply(&secrets.APIKeySecret, c.APIKeySecret)
	apply(&secrets.AuthToken, c.AuthToken)
	apply(&secrets.NextAuthToken, c.NextAuthToken)
	if secrets.NextAuthToken == secrets.AuthToken { // it was promoted: the change is over, and one token signs
		secrets.NextAuthToken = ""
	}
	if secrets.APIKeySecret == "" || secrets.AuthToken == "" {
		return sealed{}, edge.Invalid("api_key_secret and auth_token", "must be given: none are kept of this sender")
	}
	if err := d.check(ctx, row.Sender, secrets); err != nil {
		return sealed{}, err
	}
	return d.Keyset.sealAll(row.OrgID, row.ID, secrets)
}

// Delete takes the credentials away for good and frees the number and the messaging service; ErrNotFound, ErrInUse.
func (d *Directory) Delete(ctx context.Context, orgID, id uuid.UUID) error {
	row, err := d.find(ctx, orgID, id)
	if err != nil {
		return err
	}
	used, err := d.Store.used(ctx, orgID, id)
	switch {
	case err != nil:
		return fmt.Errorf("look for messages of the sender: %w", err)
	case used:
		return ErrInUse
	}
	row.Status, row.sealed, row.DeletedAt = Disabled, sealed{}, d.Now().Truncate(time.Microsecond)
	return d.write(ctx, &row)
}

// write stores the next version of a row.
func (d *Directory) write(ctx context.Context, row *stored) error {
	row.Version++
	row.UpdatedAt = d.Now().Truncate(time.Microsecond)
	done, err := d.Store.update(ctx, *row)
	if err != nil {
		return fmt.Errorf("store the sender: %w", err)
	}
	d.forget(row.Sender)
	if !done {
		return fmt.Errorf("%w: the sender was changed at the same moment", sms.ErrUnavailable)
	}
	return nil
}

func apply[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// check asks Twilio whether the credentials are the account's and the messaging service and the number too, and us whether they are free.
// The tokens are checked as well: whoever knows the token of an account signs what comes from it.
func (d *Directory) check(ctx context.Context, s Sender, secrets Credentials) error {
	for f, token := range map[field]string{authToken: secrets.AuthToken, nextAuthToken: secrets.NextAuthToken} {
		if token == "" {
			continue
		}
		c, err := d.dial(s, "", token)
		if err == nil {
			err = c.CheckAccount(ctx)
		}
		if err != nil {
			return refused(string(f), err)
		}
	}
	c, err := d.dial(s, s.APIKeySID, secrets.APIKeySecret)
	if err != nil {
		return refused("api_key_sid and api_key_secret", err)
	}
	pool, err := d.checkSenders(ctx, c, s)
	if err != nil {
		return err
	}
	return d.checkFree(ctx, c, s, pool)
}

// refused words why Twilio did not say yes.
func refused(what string, err error) error {
	if errors.Is(err, twilio.ErrCredentials) || errors.Is(err, twilio.ErrNoResource) {
		return fmt.Errorf("%w: %s is not what Twilio has for this account; nothing was stored", ErrRefused, what)
	}
	return fmt.Errorf("%w: Twilio could not be asked about %s: %w", sms.ErrUnavailable, what, err)
}

// checkSenders asks Twilio for the messaging service and the number, and returns the numbers of the service.
func (d *Directory) checkSenders(ctx context.Context, c *twilio.Client, s Sender) (pool []string, err error) {
	const key = "api_key_sid and api_key_secret"
	if s.ServiceSID != "" {
		numbers, found, err := c.HasService(ctx, s.ServiceSID)
		switch {
		case err != nil:
			return nil, refused(key, err)
		case !found:
			return nil, fmt.Errorf("%w: messaging_service_sid", ErrNotOfAccount)
		case len(numbers) == 0:
			return nil, fmt.Errorf("%w: messaging_service_sid has no number in its pool; add one at Twilio", ErrNotOfAccount)
		}
		pool = numbers
	}
	if s.Number == "" || slices.Contains(pool, s.Number) {
		return pool, nil
	}
	owned, err := c.Owns(ctx, s.Number)
	if err != nil {
		return nil, refused(key, err)
	}
	if !owned {
		return nil, fmt.Errorf("%w: number", ErrNotOfAccount)
	}
	return pool, nil
}

// checkFree looks for other senders with the same number or messaging service: also a number that is in the pool of a messaging service.
func (d *Directory) checkFree(ctx context.Context, c *twilio.Client, s Sender, pool []string) error {
	numbers := slices.Clone(pool)
	if s.Number != "" {
		numbers = append(numbers, s.Number)
	}
	if env := d.Environment; slices.ContainsFunc(numbers, func(n string) bool { return env.has(n, "") }) || env.has("", s.ServiceSID) {
		return fmt.Errorf("%w: the environment of this deployment has it", ErrClaimed)
	}
	others, err := d.Store.claims(ctx, s.ID, numbers, s.ServiceSID)
	if err != nil {
		return fmt.Errorf("look for other senders: %w", err)
	}
	if len(others) > 0 {
		return fmt.Errorf("%w: number, or one of the numbers of messaging_service_sid, or that itself", ErrClaimed)
	}
	if s.Number == "" {
		return nil
	}
	mates, err := d.account(ctx, s.AccountSID)
	if err != nil {
		return err
	}
	for _, mate := range mates {
		if mate.ID == s.ID || mate.ServiceSID == "" || !mate.DeletedAt.IsZero() {
			continue
		}
		theirs, _, err := c.HasService(ctx, mate.ServiceSID)
		if err != nil {
			return refused("the other messaging services of the account", err)
		}
		if slices.Contains(theirs, s.Number) {
			return fmt.Errorf("%w: number is in the pool of its messaging service", ErrClaimed)
		}
	}
	return nil
}

// Look asks Twilio whether a stored sender can still send, for the doctor.
func (d *Directory) Look(ctx context.Context, say func(Sender, error)) error {
	return d.Store.each(ctx, func(row stored) error {
		secrets, err := d.Keyset.openAll(row.OrgID, row.ID, row.sealed)
		if err == nil {
			err = d.check(ctx, row.Sender, secrets)
		}
		say(row.Sender, err)
		return nil
	})
}
