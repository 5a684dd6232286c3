package conversation

import "context"

// AwaitsJudgement reports whether words of a person that may be an opt-out wait for an operator, in their session or in a failed job.
func (c *Service) AwaitsJudgement(ctx context.Context, orgID, phone string) (bool, error) {
	view, err := c.Store.Conversation(ctx, orgID, phone)
	if err != nil || awaitsJudgement(view.Session) {
		return err == nil, err
	}
	return c.Store.AwaitsOperator(ctx, orgID, phone)
}
