namespace HALFSTEP_ISA {
int placeholder = 0;
}
