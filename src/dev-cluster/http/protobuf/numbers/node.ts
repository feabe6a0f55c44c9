/** The numbers of the fields of node/v1. Printed by scripts/protobuf-numbers.ts. */
export const node = `
Overhead podFixed
RuntimeClass metadata handler overhead scheduling
Scheduling nodeSelector tolerations
`;
