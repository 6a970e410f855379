/** A value that the recorder cannot take: what was expected, what was found, and where. */
export class InvalidRecordError extends Error {
  override name = "InvalidRecordError";
}

/** More records wait than the recorder may hold. The record of this call was not taken. */
export class RecorderFullError extends Error {
  override name = "RecorderFullError";
}

/** The server did not acknowledge everything in time. The records still wait. */
export class NotAcknowledgedError extends Error {
  override name = "NotAcknowledgedError";
}

/** The server refused records for good; sending them again would not help. */
export class RecordsRefusedError extends Error {
  override name = "RecordsRefusedError";
  readonly refusals: readonly Refusal[];

  constructor(message: string, refusals: readonly Refusal[]) {
    super(message);
    this.refusals = refusals;
  }
}

/** The server's refusal of a request for or about outcomes. */
export class OutcomesRefusedError extends Error {
  override name = "OutcomesRefusedError";
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

/** A record that the server did not take. */
export interface Refusal {
  readonly status: number;
  readonly error: string;
  readonly reason: string | null;
  readonly kind: string;
  readonly trajectoryId: string;
}
