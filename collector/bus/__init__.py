"""The agent's side of the bus: what it observed, sent to the gateways over NATS JetStream."""

from collector.bus.publisher import Publisher as Publisher
