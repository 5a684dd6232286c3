package qstash

import "context"

type Job struct{ Destination string }

type Receipt struct{}

type Client struct{}

func (c *Client) Keys(ctx context.Context) error { return nil }

type Publisher struct{ Client *Client }

func (p *Publisher) Publish(ctx context.Context, job Job) (Receipt, error) {
	_ = "/v2/publish/" + job.Destination
	return Receipt{}, nil
}
