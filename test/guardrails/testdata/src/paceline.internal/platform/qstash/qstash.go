package qstash

import "context"

type Job struct{ Path string }

type Message struct{ Destination string }

type Receipt struct{}

type Client struct{}

func (c *Client) Publish(ctx context.Context, m Message) (Receipt, error) {
	_ = "/v2/publish/" + m.Destination
	return Receipt{}, nil
}

func (c *Client) Keys(ctx context.Context) error { return nil }

type Publisher struct{ Client *Client }

func (p *Publisher) Publish(ctx context.Context, job Job) (Receipt, error) {
	return p.Client.Publish(ctx, Message{Destination: job.Path})
}
