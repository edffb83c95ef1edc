"""Pure decisions: the state table, records, outcomes, protocols, codecs, durations. No I/O."""
