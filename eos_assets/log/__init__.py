"""What a transaction leaves on the cluster, shared by the sink, the proof and the audit tables."""
