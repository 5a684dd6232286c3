package qstash

const publishPath = "/v2/publish/"
