/**
 * Limits for all external input, which comes from clients, API servers, files and users. Each name ends with its unit.
 * The comment on each section names the senders, and the comment on a limit names the attack that it prevents. The
 * table in docs/explanation/security-model.md describes what happens when a limit is exceeded.
 */

const KIB = 1024;
const MIB = 1024 * KIB;

export const LIMITS = {
  // Requests to the review port. Every pod in the cluster can send them unless client certificates are required.

  /**
   * Open connections to the review port. Prevents clients from exhausting memory and file descriptors. The limit
   * exceeds the number of connections that three API servers need for concurrent writes. 1000 connections use about 100
   * MiB.
   */
  reviewConnections: 1000,
  /**
   * URL of one request on any port. The router and the query parser process it on the main thread before they can
   * reject the request. API servers send a path and a timeout of at most 70 characters in total.
   */
  urlCharacters: 256,
  /** Request line and headers of one request. Prevents clients from sending endless headers. */
  headerBytes: 16 * KIB,
  /**
   * Body of one review. Prevents clients from exhausting memory with one body. Objects in etcd have at most 2 MiB. API
   * servers send both the old and the new version of an object, and escape each `<`, `>` and `&` as six bytes.
   */
  reviewBytes: 24 * MIB,
  /** All unfinished small bodies. Prevents many slow clients from exhausting memory. */
  unfinishedSmallReviewsBytes: 24 * MIB,
  /** All complete small bodies that wait for the main thread. Prevents a flood of reviews from exhausting memory. */
  queuedReviewsBytes: 24 * MIB,
  /**
   * Received bytes of all large bodies that have not been reviewed yet. Prevents many large bodies from exhausting
   * memory. The oldest unfinished body may exceed the limit unless the complete bodies alone already exceed it.
   */
  unreviewedLargeReviewsBytes: 16 * MIB,
  /**
   * Estimated memory of reviews that wait for an object or an access check. Prevents reviews of namespaces that do not
   * exist from accumulating in memory.
   */
  waitingReviewsBytes: 48 * MIB,
  /**
   * Concurrent reads of pods for `exec`. Prevents clients from exhausting memory and from overloading the API server
   * through a replica. A pod may have up to 9 MiB because API servers escape characters.
   */
  podReads: 8,
  /**
   * SubjectAccessReviews per client address, which replicas send for approvals of exceptions, and for uses of SCCs with
   * `authorization: sar`. Prevents clients from overloading the API server and from searching for permissions through a
   * replica.
   */
  accessReviewsPerSecond: 200,
  /** Largest burst of SubjectAccessReviews for one client address, available if it has caused none for 10 seconds. */
  accessReviewBurst: 2000,
  /**
   * SubjectAccessReview for the authorization webhook. The authorizer parses it on the main thread. Reviews of kubelet
   * requests are far smaller, but reviews of other users' requests contain the selectors of those requests.
   */
  accessReviewBytes: 64 * KIB,
  /**
   * Beginning of a review that is not read completely. The fields that identify the request are searched for only
   * there.
   */
  identityBytes: 64 * KIB,
  /**
   * Each name in the envelope of a review. Messages and log lines contain names. All valid names in the API are
   * shorter.
   */
  nameCharacters: 1024,
  /**
   * Each name, group and claim of a user. Caches and log lines contain them. Some identity providers issue long ones.
   */
  claimCharacters: 16 * KIB,
  /**
   * Values in the relevant fields of a large review, which the main thread parses. The largest pods have 100,000
   * values.
   */
  reviewValues: 250_000,
  /** Relevant fields of a large review, which the main thread parses. */
  relevantBytes: 8 * MIB,
  /**
   * Nesting depth of fields that decisions read. Prevents recursion from overflowing the stack. Pods have about 20
   * levels.
   */
  nestingLevels: 100,
  /**
   * Nesting of other fields. API servers have the same limit.
   * @see https://github.com/golang/go/blob/go1.25.0/src/encoding/json/scanner.go
   */
  ignoredNestingLevels: 10_000,

  // Responses and log lines, which repeat text from reviews. Without a limit, a single review could fill the log.

  /** Each message of a response, and all audit annotations of the response together. */
  messageCharacters: 256 * KIB,
  /** Reason for a denial in the log. */
  loggedCharacters: 16 * KIB,
  /** Reason why a review is malformed. It may contain any part of the review. */
  malformedCharacters: 1024,

  // Requests to the probe port. Every pod in the cluster can send them.

  /** Open connections to the probe port. Kubelets and Prometheus use one connection each. */
  probeConnections: 50,
  /**
   * Maximum age of cached metrics in a response. Without the cache, clients could keep the main thread busy, because it
   * renders all metrics.
   */
  metricsAgeMilliseconds: 1000,

  // Objects that every user who can create pods, workloads or exceptions in a namespace can write. An object that fits
  // into etcd (1.5 MiB) could contain many more items than any node can run, and evaluating it would delay other
  // reviews.

  /** Containers of a pod. */
  containers: 5000,
  /** Sum of all other items of a pod, such as volumes, ports and capabilities. */
  podItems: 20_000,
  /**
   * Annotation keys and values of a pod. API servers have the same limit.
   * @see https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/
   */
  annotationBytes: 256 * KIB,
  /** Spec of a PodSecurityException. Replicas keep all exceptions in memory and match them against each pod. */
  exceptionSpecBytes: 16 * KIB,

  // Data that replicas keep between requests. Keys are digests or UIDs, and each entry uses less than 1 KiB.

  /**
   * Each string in an event's reference to an object, which may come from the owner references in a review. The longest
   * valid string is an API version with a group of 253 characters.
   */
  eventReferenceCharacters: 317,
  /** Rate limiters of events, one for each object. Forged reviews can name any number of objects. */
  eventBucketsBytes: 4 * MIB,
  /** Series of equal events. */
  eventSeriesBytes: 4 * MIB,
  /**
   * Events that are being written or are waiting. Prevents events from accumulating in memory while the API server is
   * slow.
   */
  pendingEvents: 200,
  /** Events that are written concurrently. Prevents events, such as those of expiring grants, from delaying requests. */
  eventWrites: 10,
  /** Rate limiters of SubjectAccessReviews, one for each client address. */
  accessReviewBucketsBytes: 4 * MIB,
  /** Results of SubjectAccessReviews. Reviews can name any number of users. */
  accessReviewResultsBytes: 10 * MIB,
  /**
   * Details of violations in the evaluation of a namespace, which the leader keeps. Reports contain the same details.
   */
  evaluationCharacters: 256 * KIB,
  /** Predicted levels of namespaces with many service accounts, which are cached for one second. */
  predictedLevelsBytes: 1 * MIB,
  /** Series of a counter. The policy version and the names in labels depend on objects and settings, which change. */
  counterSeries: 1000,
  /** A replica's own writes of one kind that its watch has not delivered yet. */
  ownWritesBytes: 16 * MIB,

  // Stored objects. Replicas list and watch objects that every user with the `edit` or `admin` ClusterRole can write.

  /**
   * Relevant fields of a stored pod or pod template. Prevents pods with thousands of volumes from exhausting memory.
   * Typical pods have 2 KiB. Larger pods are stored with a marker, so every policy denies them.
   */
  storedPodBytes: 32 * KIB,
  /**
   * Relevant fields of any other object that users of a namespace can write. Larger objects are stored without these
   * fields.
   */
  storedObjectBytes: 64 * KIB,
  /**
   * Kubelet version that a node reports. Responses, conditions and log lines repeat it. A node can report up to 1.5
   * MiB, and API servers cache thousands of responses of the authorization webhook.
   */
  kubeletVersionCharacters: 256,
  /**
   * Subjects of a stored binding, and names in a stored rule. Access checks ignore subjects and names beyond the limit.
   */
  storedNames: 1000,

  // Responses of API servers. Users control the objects in them, and the limits also protect replicas from faulty
  // servers.

  /** Pages of a list. Prevents endless lists. The limit allows more objects than any cluster has. */
  listPages: 10_000,
  /** Page of a list if it has several objects. A larger page is requested again with fewer objects. */
  pageBytes: 4 * MIB,
  /**
   * One object, watch event or other response. API servers store at most 1.5 MiB per object, but the JSON may be six
   * times as large.
   */
  responseBytes: 16 * MIB,
  /**
   * Response that the main thread parses. Larger responses are parsed in a worker thread, so they do not delay reviews.
   */
  mainThreadBytes: 128 * KIB,
  /**
   * Values in a response or a large review. If the native JSON parser exceeded the heap, V8 would abort the process. A
   * stored object has at most 750,000 values, because each value takes at least two bytes in etcd. A review contains
   * two objects.
   */
  jsonValues: 1_500_000,

  // Command lines, files and URLs. The user passes them to a command, but their content may come from someone else.

  /** Value of an option, an environment variable or an operand. Linux has the same limit for each of them. */
  optionCharacters: 128 * KIB,
  /** Answer to a question on the terminal. The input may be a pipe that never ends. */
  confirmationCharacters: 1000,
  /** Certificates in a PEM text. Parsing a certificate takes about 50 µs. */
  certificates: 500,

  /** One file, one download or standard input. A pipe or a file such as `/dev/zero` may never end. */
  fileBytes: 256 * MIB,
  /** Nesting depth of YAML. Prevents recursion from overflowing the stack. */
  yamlNestingLevels: 500,
  /**
   * Number of values in a YAML document up to which 99 % of the values may come from aliases, as in kubectl. The
   * allowed share falls to 10 % for ten times as many values. Prevents exponential expansion.
   */
  aliasedNodes: 400_000,
  /** Manifests in the playground. Prevents a link from freezing the page. */
  playgroundCharacters: 256 * KIB,
  /** Fragment of a playground link before decompression. */
  fragmentCharacters: 512 * KIB,
} as const;

export type LimitName = keyof typeof LIMITS;
