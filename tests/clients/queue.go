// go-redis against a running server: pipelines, transactions, scripts, streams with a group, pub/sub.
//
//	go run . PORT
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func must(what string, holds bool, err error) {
	if err != nil || !holds {
		fmt.Fprintln(os.Stderr, what, err)
		os.Exit(1)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol})
		must("flush", true, client.FlushAll(ctx).Err())
		pipe := client.TxPipeline()
		set, counted := pipe.Set(ctx, "a", 1, 0), pipe.Incr(ctx, "a")
		_, err := pipe.Exec(ctx)
		must("a transaction", set.Val() == "OK" && counted.Val() == 2, err)
		watched := client.Watch(ctx, func(tx *redis.Tx) error {
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Incr(ctx, "a").Err() })
			return err
		}, "a")
		must("a watch", true, watched)
		script := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1])")
		sum, err := script.Run(ctx, client, []string{"a"}, 4).Int()
		must("a script", sum == 7, err)
		must("a hash", true, client.HSet(ctx, "hash", "field", "value").Err())
		all, err := client.HGetAll(ctx, "hash").Result()
		must("a hash", all["field"] == "value", err)
		must("a sorted set", true, client.ZAdd(ctx, "sorted", redis.Z{Score: 1.5, Member: "m"}).Err())
		scored, err := client.ZRangeWithScores(ctx, "sorted", 0, -1).Result()
		must("a sorted set", len(scored) == 1 && scored[0].Score == 1.5, err)
		must("a group", true, client.XGroupCreateMkStream(ctx, "stream", "group", "0").Err())
		must("an entry", true, client.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: []string{"field", "value"}}).Err())
		read, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: "group", Consumer: "one", Streams: []string{"stream", ">"}, Count: 1,
		}).Result()
		must("a group", len(read) == 1 && read[0].Messages[0].Values["field"] == "value", err)
		pending, err := client.XPending(ctx, "stream", "group").Result()
		must("what is pending", pending.Count == 1, err)
		listener := client.Subscribe(ctx, "news")
		_, err = listener.Receive(ctx)
		must("a subscription", true, err)
		must("a message", true, client.Publish(ctx, "news", "hello").Err())
		message, err := listener.ReceiveMessage(ctx)
		must("a message", message.Payload == "hello", err)
		must("an end", true, listener.Close())
		must("an end", true, client.Close())
	}
	fmt.Println("go-redis: ok")
}
