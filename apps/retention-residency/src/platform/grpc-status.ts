import type { status } from '@grpc/grpc-js';
import protobuf from 'protobufjs';

/** Where clients look for google.rpc.Status. */
export const STATUS_DETAILS = 'grpc-status-details-bin';

const { root } = protobuf.parse(`
  syntax = "proto3";
  package google.rpc;
  message Any { string type_url = 1; bytes value = 2; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; }
`);
const Status = root.lookupType('google.rpc.Status');
const ErrorInfo = root.lookupType('google.rpc.ErrorInfo');

/** google.rpc.Status with one ErrorInfo, whose reason is the code of the problem. */
export function statusDetails(code: status, message: string, reason: string): Buffer {
  const info = ErrorInfo.encode({ reason, domain: 'retention-residency' }).finish();
  const details = [{ type_url: 'type.googleapis.com/google.rpc.ErrorInfo', value: info }];
  return Buffer.from(Status.encode({ code, message, details }).finish());
}
